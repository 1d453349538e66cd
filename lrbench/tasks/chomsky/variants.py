"""Tasks of Delétang et al. as other papers have them: `xlstm_*` and `slice_*`.

Parity, even pairs, cycle navigation and modular arithmetic of Delétang et al. 2023 came back under
the same names as other functions. Sources: Beck et al. 2024, "xLSTM" (arXiv:2405.04517), whose
generators Grazzi et al. 2025 (arXiv:2411.12537) took over; Walker et al. 2025, "SLiCE"
(arXiv:2505.17761), which Terzic et al. 2025 (arXiv:2509.22284) took over. The expressions with
brackets are of Grazzi et al. alone. Strings are theirs in other random numbers. All ask once, at
the last symbol that is read:

    xlstm_*   a length counts the answer: a string of length n is n - 1 symbols; with brackets n - 2
    slice_*   a length counts what is read; of modular arithmetic an odd one is rounded up

Both papers write symbols and answers in one vocabulary with a symbol for padding, so that a model
has more logits than there are answers: `shared_vocabulary`. With `false` it has the answers only.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import torch
from torch import Tensor

from lrbench.registry import register_task
from lrbench.tasks.base import Device
from lrbench.tasks.chomsky.expressions import Expressions, drawn, value_of, values
from lrbench.tasks.chomsky.regular import QueriedTask, cycle, first_and_last
from lrbench.tasks.chomsky.slots import DIGITS, TIMES, words
from lrbench.tasks.machine import Machine
from lrbench.tasks.stream import Stream, integers
from lrbench.tasks.symbols.mod_arith import ModArith, ModArithConfig

PAD = "[PAD]"
POSITIONS = ("at 0", "at 1", "at 2", "at 3", "at 4", "at 5")


@dataclass
class VariantConfig:
    """Settings of a paper's variant.

    shared_vocabulary: whether logits are over the whole vocabulary, as in the source; false: over
    the answers.
    """

    name: str = "???"
    shared_vocabulary: bool = True

    @property
    def title(self) -> str:
        """How a table calls it."""
        return self.name if self.shared_vocabulary else f"{self.name} (logits of answers)"


class VariantTask(QueriedTask):
    """A task whose vocabulary also has answers and a padding symbol, which no string has.

    letters: how many of `symbols` are drawn, the first ones. answers_of: the names of the answers
    of `machine`. counts_answer: whether a length counts the answer.
    """

    letters: ClassVar[int]
    answers_of: ClassVar[tuple[str, ...]]
    counts_answer: ClassVar[bool]

    def __init__(self, config: Any, machine: Machine) -> None:
        shared = config.shared_vocabulary
        self.numbers = [
            self.symbols.index(name) if shared else number
            for number, name in enumerate(self.answers_of)
        ]
        answers = tuple(None if one is None else self.numbers[one] for one in machine.answers)
        super().__init__(config, replace(machine, answers=answers))
        self.class_names = self.vocabulary if shared else self.answers_of

    @property
    def shortest(self) -> int:
        """The shortest length."""
        return 1 + self.counts_answer

    def valid_length(self, length: int) -> bool:
        """Whether there is anything to read."""
        return length >= self.shortest

    def positions(self, length: int) -> int:
        """What is read."""
        return length - self.counts_answer

    def output(self, symbols: Sequence[int]) -> int:
        """Look the answer up in the vocabulary, or among the answers."""
        return self.numbers[self.answer_to(symbols)]

    @abstractmethod
    def answer_to(self, symbols: Sequence[int]) -> int:
        """Return which of `answers_of` is right, slowly and obviously."""

    def _symbols(
        self, stream: Stream, step: int | range, rows: int, start: int, stop: int, device: Device
    ) -> Tensor:
        return integers(stream, step, rows, start, stop, self.letters, device)


class ParityVariant(VariantTask):
    """Is the number of the second letter odd? Letters are uniform."""

    letters = 2

    def __init__(self, config: Any) -> None:
        super().__init__(config, cycle((0, 1), 2))

    def answer_to(self, symbols: Sequence[int]) -> int:
        """Count the second letter."""
        return sum(symbol == 1 for symbol in symbols) % 2


class EvenPairsVariant(VariantTask):
    """Do first and last letter differ? Letters are uniform; the first answer stands for equal."""

    letters = 2

    def __init__(self, config: Any) -> None:
        super().__init__(config, first_and_last())

    def answer_to(self, symbols: Sequence[int]) -> int:
        """Compare first and last."""
        return int(symbols[0] != symbols[-1])


class CycleVariant(VariantTask):
    """The place on a cycle after moves stay, +1 and -1, uniform, from place 0."""

    letters = 3

    def __init__(self, config: Any) -> None:
        super().__init__(config, cycle((0, 1, -1), len(self.answers_of)))

    def answer_to(self, symbols: Sequence[int]) -> int:
        """Walk."""
        moves = {"stay": 0, "+1": 1, "-1": -1}
        return sum(moves[self.symbols[symbol]] for symbol in symbols) % len(self.answers_of)


class ArithmeticVariant(VariantTask):
    """The value mod 5 of digits and operators, asked at "=". Multiplication comes first."""

    symbols = (*DIGITS, "+", "-", TIMES, PAD)
    answers_of = DIGITS
    letters = 8
    question = "="
    asks_at_query = True

    def __init__(self, config: Any) -> None:
        self.expressions = ModArith(ModArithConfig())
        super().__init__(config, self.expressions.machine())

    def answer_to(self, symbols: Sequence[int]) -> int:
        """Evaluate the expression from scratch."""
        return self.expressions._value(symbols)

    def _symbols(
        self, stream: Stream, step: int | range, rows: int, start: int, stop: int, device: Device
    ) -> Tensor:
        """Draw what `mod_arith` draws from a stream."""
        return self.expressions._tokens(stream, step, rows, start, stop, device)


@dataclass
class XlstmParityConfig(VariantConfig):
    """Settings of `xlstm_parity`."""

    name: str = "xlstm_parity"


@register_task("xlstm_parity", XlstmParityConfig, "is the number of 2s odd? (Beck et al. 2024)")
class XlstmParity(ParityVariant):
    """Letters 1 and 2; the answer is 1 where the number of 2s is even, else 2."""

    symbols, answers_of = ("1", "2", PAD), ("1", "2")
    counts_answer = True
    length_rule = "lengths >= 2 (the answer counts)"


@dataclass
class XlstmEvenPairsConfig(VariantConfig):
    """Settings of `xlstm_even_pairs`."""

    name: str = "xlstm_even_pairs"


@register_task(
    "xlstm_even_pairs",
    XlstmEvenPairsConfig,
    "how far are first and last letter apart? (Beck et al. 2024)",
)
class XlstmEvenPairs(EvenPairsVariant):
    """Letters 1 and 2; the answer is 1 + |last - first|. Lengths are 3 and more."""

    symbols, answers_of = ("1", "2", PAD), ("1", "2")
    counts_answer = True
    length_rule = "lengths >= 3 (the answer counts)"

    @property
    def shortest(self) -> int:
        """Two letters and the answer."""
        return 3


@dataclass
class XlstmCycleNavigationConfig(VariantConfig):
    """Settings of `xlstm_cycle_navigation`."""

    name: str = "xlstm_cycle_navigation"


@register_task(
    "xlstm_cycle_navigation",
    XlstmCycleNavigationConfig,
    "the place on a cycle of six (Beck et al. 2024)",
)
class XlstmCycleNavigation(CycleVariant):
    """Six places, those of the source's vocabulary of ten; all others have five."""

    symbols, answers_of = ("stay", "+1", "-1", *POSITIONS, PAD), POSITIONS
    counts_answer = True
    length_rule = "lengths >= 2 (the answer counts)"


@dataclass
class XlstmModularArithmeticConfig(VariantConfig):
    """Settings of `xlstm_modular_arithmetic`."""

    name: str = "xlstm_modular_arithmetic"


@register_task(
    "xlstm_modular_arithmetic",
    XlstmModularArithmeticConfig,
    "value mod 5 without brackets, asked at = (Beck et al. 2024)",
)
class XlstmModularArithmetic(ArithmeticVariant):
    """A length counts "=" and the answer, and is odd: (n - 1) / 2 digits of n."""

    counts_answer = True
    length_rule = "odd lengths >= 3 (number, operator, ..., number, =, answer)"

    def valid_length(self, length: int) -> bool:
        """Whether a number, the equals sign and the answer fit."""
        return length >= 3 and length % 2 == 1


@dataclass
class XlstmModularArithmeticBracketsConfig(VariantConfig):
    """Settings of `xlstm_modular_arithmetic_brackets`."""

    name: str = "xlstm_modular_arithmetic_brackets"


@register_task(
    "xlstm_modular_arithmetic_brackets",
    XlstmModularArithmeticBracketsConfig,
    "value mod 5 of brackets with + and -, asked at = (Grazzi et al. 2025)",
)
class XlstmModularArithmeticBrackets(Expressions):
    """The expressions of `nnch_modular_arithmetic_brackets`, with + and - alone, then "=".

    A length counts "=", the answer and a symbol of padding: n - 3 symbols of n, and of a length of
    3 or 4 two, as of 5. The sign of multiplication is in the vocabulary and in no string.
    Deterministic context-free; every answer is as likely.
    """

    symbols = (*DIGITS, "+", "-", TIMES, "(", ")")
    length_rule = "lengths >= 3 (3 and 4 have the strings of 5)"

    def __init__(self, config: Any) -> None:
        super().__init__(config)
        self.vocabulary = (*self.symbols, "=", PAD)
        if config.shared_vocabulary:  # digits come first in it
            self.class_names = self.vocabulary

    def valid_length(self, length: int) -> bool:
        """Whether there is a symbol before what else a length counts, in the source."""
        return length >= 3

    def positions(self, length: int) -> int:
        """The expression and "="."""
        return max(length, 5) - 2

    def output(self, symbols: Sequence[int]) -> list[int]:
        """Evaluate it recursively."""
        return [value_of(symbols)]

    def _inputs(self, stream: Stream, step: int | range, rows: int, length: int) -> Tensor:
        word = words(stream, step, rows, self.positions(length) - 1)
        return torch.from_numpy(drawn(word.numpy(), operators=2))

    def _strings(
        self, stream: Stream, step: int | range, rows: int, length: int, device: Device
    ) -> Tensor:
        symbols = self._inputs(stream, step, rows, length)
        return torch.cat((symbols, torch.full_like(symbols[:, :1], self.empty)), 1).to(device)

    def _outputs(self, symbols: Tensor) -> Tensor:
        return torch.from_numpy(values(symbols.numpy()))[:, None]


@dataclass
class SliceParityConfig(VariantConfig):
    """Settings of `slice_parity`."""

    name: str = "slice_parity"


@register_task("slice_parity", SliceParityConfig, "is the number of bs odd? (Walker et al. 2025)")
class SliceParity(ParityVariant):
    """Letters a and b; the answer is a where the number of bs is even, else b."""

    symbols, answers_of = ("a", "b", PAD), ("a", "b")
    counts_answer = False


@dataclass
class SliceEvenPairsConfig(VariantConfig):
    """Settings of `slice_even_pairs`."""

    name: str = "slice_even_pairs"


@register_task(
    "slice_even_pairs",
    SliceEvenPairsConfig,
    "do first and last letter differ? (Walker et al. 2025)",
)
class SliceEvenPairs(EvenPairsVariant):
    """Letters a and b; the answer is a where first and last are equal, else b."""

    symbols, answers_of = ("a", "b", PAD), ("a", "b")
    counts_answer = False


@dataclass
class SliceCycleNavConfig(VariantConfig):
    """Settings of `slice_cycle_nav`."""

    name: str = "slice_cycle_nav"


@register_task(
    "slice_cycle_nav", SliceCycleNavConfig, "the place on a cycle of five (Walker et al. 2025)"
)
class SliceCycleNav(CycleVariant):
    """Five places."""

    symbols, answers_of = ("stay", "+1", "-1", *POSITIONS[:5], PAD), POSITIONS[:5]
    counts_answer = False


@dataclass
class SliceModularArithmeticConfig(VariantConfig):
    """Settings of `slice_modular_arithmetic`."""

    name: str = "slice_modular_arithmetic"


@register_task(
    "slice_modular_arithmetic",
    SliceModularArithmeticConfig,
    "value mod 5 without brackets, asked at = (Walker et al. 2025)",
)
class SliceModularArithmetic(ArithmeticVariant):
    """A length counts "=", and an odd one is rounded up, as in the source: n / 2 digits of n."""

    counts_answer = False
    length_rule = "lengths >= 1 (an odd one has the strings of the next)"

    def positions(self, length: int) -> int:
        """The length, made even."""
        return length + length % 2
