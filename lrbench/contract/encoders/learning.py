"""Check of training: an encoder can learn 64 short strings by heart."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from lrbench.contract.finding import Finding
from lrbench.contract.subject import EncoderFactory, PaddedStrings, seeded
from lrbench.models.classifier import Classifier, ClassifierConfig
from lrbench.training.optim import by_rule

COUNT, DIGITS = 64, 5
LONGEST = 7  # digits in a string
MIN, MAX, END = DIGITS, DIGITS + 1, DIGITS + 2
UPDATES, EVERY, RATE = 400, 10, 5e-3


def learns_by_heart(make: EncoderFactory, strings: PaddedStrings) -> Finding:
    """Train a classifier on 64 strings such as [MAX 3 0 4 ]: it has to know all of them."""
    tokens, lengths, answers = short_strings()
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        settings = ClassifierConfig(in_dropout=0.0, out_dropout=0.0)
        model = Classifier(settings, make(dtype=torch.float32), END + 1, DIGITS)
    groups = [
        {"params": parameters, "lr": min(RATE * rule.lr, rule.cap)}
        for rule, parameters in by_rule(model).items()
    ]
    optimiser, generator = torch.optim.Adam(groups), seeded()
    known = 0
    for update in range(UPDATES):
        if update % EVERY == 0:
            known = _known(model, tokens, lengths, answers)
            if known == COUNT:
                return Finding("by heart", True, f"{COUNT} strings after {update} updates")
        optimiser.zero_grad()
        cross_entropy(model(tokens, lengths, generator), answers).backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimiser.step()
    return Finding("by heart", False, f"knows {known} of {COUNT} strings after {UPDATES} updates")


def short_strings() -> tuple[Tensor, Tensor, Tensor]:
    """Return tokens (64, S), lengths (64,) and answers (64,) of one MIN or MAX each."""
    generator = torch.Generator().manual_seed(0)
    tokens = torch.full((COUNT, LONGEST + 2), END)
    counts = torch.randint(1, LONGEST + 1, (COUNT,), generator=generator)
    answers = torch.empty(COUNT, dtype=torch.int64)
    for row, count in enumerate(counts.tolist()):
        digits = torch.randint(DIGITS, (count,), generator=generator)
        largest = row % 2 == 1
        tokens[row, 0] = MAX if largest else MIN
        tokens[row, 1 : 1 + count] = digits
        answers[row] = digits.max() if largest else digits.min()
    return tokens, counts + 2, answers


@torch.no_grad()
def _known(model: nn.Module, tokens: Tensor, lengths: Tensor, answers: Tensor) -> int:
    return int((model(tokens, lengths).argmax(1) == answers).sum())
