"""The automaton that a certificate is about: by its rule, written anew here, or the file's own.

A file carries it, as arrays of Q states and S symbols: task/start (), task/edges (Q, S), -1 where
no valid string goes on, task/answers (Q,), -1 where nothing is asked. Where this checker knows the
rule of a task, its own automaton is what counts, and the file's must be the same language. Of other
tasks (random tables, named languages) a proof is about the automaton of the file, and says so.
"""

from __future__ import annotations

import hashlib
import itertools
import json
import math
import re
from dataclasses import dataclass
from typing import Any

import numpy as np

from .reading import check_known, need

Edges = list[list[int | None]]

MOST_EDGES = 1 << 22
BY_RULE, OF_FILE = "by its rule, made anew", "the automaton of the file"


@dataclass(frozen=True)
class Automaton:
    """States q from `start` on: the state after each symbol, the class that is asked, or None.

    source: whether it was made here, by the task's rule.
    """

    start: int
    delta: Edges
    answers: list[int | None]
    source: str = BY_RULE

    def digest(self) -> str:
        """Return the sha256 of its edges and answers, states in the order they are reached in."""
        number, order, rows = {self.start: 0}, [self.start], []
        for state in order:  # grows
            for to in self.delta[state]:
                if to is not None and to not in number:
                    number[to] = len(order)
                    order.append(to)
            rows.append([None if to is None else number[to] for to in self.delta[state]])
        content = {"edges": rows, "answers": [self.answers[state] for state in order]}
        return hashlib.sha256(json.dumps(content).encode()).hexdigest()


def automaton(task: Any, arrays: dict[str, Any], symbols: int) -> Automaton:
    """Return what a task asks, of a certificate whose successors have `symbols` columns.

    What has others is refused before it is made. Raises Refused.
    """
    check_known("the task", task, {"name", "settings", "version"})
    name, settings, version = (task.get(key) for key in ("name", "settings", "version"))
    need(isinstance(name, str) and isinstance(settings, dict), "a task of another kind")
    need(type(version) is int and version >= 1, "a version of the task that is none")
    plain = all(type(v) in (int, float, str, bool, type(None)) for v in settings.values())
    need(plain, "a setting of the task of another kind")
    carried = _carried(arrays)
    need(carried is None or len(carried.delta[0]) == symbols, "successors of another shape")
    need(name in KNOWN, f"a task that this checker does not know: {name[:40]}")
    keys, rule = KNOWN[name]
    check_known("the task", settings, set(keys))
    need(set(settings) == set(keys) and version == 1, "a task of another version")
    if name in OF_THE_FILE:
        need(carried is not None, f"no automaton: {name} is certified of the one in the file")
        need(rule(settings, carried), f"an automaton that is none of {name} with these settings")
        assert carried is not None
        return carried
    made: Automaton = rule(name, settings, symbols, carried)
    if carried is not None:
        need(same_language(made, carried), "an automaton of another task")
    return made


def _carried(arrays: dict[str, Any]) -> Automaton | None:
    there = [name for name in ("task/start", "task/edges", "task/answers") if name in arrays]
    if not there:
        return None
    need(len(there) == 3, "part of an automaton")
    start, edges, answers = (arrays[name] for name in there)
    need(all(a.dtype == np.int32 for a in (start, edges, answers)), "an automaton must be int32")
    good = start.shape == () and edges.ndim == 2 and answers.shape == edges.shape[:1]
    need(good and 0 < edges.size <= MOST_EDGES, "an automaton of another shape, or too large")
    states = len(edges)
    good = 0 <= int(start) < states and edges.min() >= -1 and edges.max() < states
    need(bool(good), "an automaton whose edges lead to no state")
    need(bool(answers.min() >= -1 and answers.max() >= 0), "an automaton without answers")
    given = [None if a < 0 else a for a in answers.tolist()]
    rows = [[None if to < 0 else to for to in row] for row in edges.tolist()]
    return Automaton(int(start), rows, given, OF_FILE)


def same_language(one: Automaton, other: Automaton) -> bool:
    """Walk both side by side: whether the same strings are valid, and are answered alike.

    Nothing is asked of the empty string. Raises Refused where that takes too long.
    """
    pairs = [(one.start, other.start)]
    met = set(pairs)
    for mine, theirs in pairs:  # grows
        if len(one.delta[mine]) != len(other.delta[theirs]):
            return False
        for to, their in zip(one.delta[mine], other.delta[theirs], strict=True):
            if to is None and their is None:
                continue
            if to is None or their is None or one.answers[to] != other.answers[their]:
                return False
            if (to, their) not in met:
                need(len(met) < MOST_EDGES, "an automaton that is too large for this checker")
                met.add((to, their))
                pairs.append((to, their))
    return True


def _modular(name: str, settings: Any, symbols: int, carried: Automaton | None) -> Automaton:
    """sum, parity, even_pair, mod_arith, mod_arith_ltr."""
    m, operators = settings["modulus"], 3 if name.startswith("mod_arith") else 0
    need(type(m) is int and 2 <= m <= 1000, "a modulus that is none")
    need(symbols == m + operators, "successors of another shape")
    need(name != "mod_arith" or m <= 100, "a machine that is too large for this checker")
    need(name != "parity" or m == 2, "parity is modulo 2")
    if name in ("sum", "parity"):
        return Automaton(0, [[(q + s) % m for s in range(m)] for q in range(m)], list(range(m)))
    edges: Edges = []
    if name == "even_pair":  # state 1 + 2 first + (last = first), 0 the empty string
        edges.append([1 + 2 * s + 1 for s in range(m)])
        edges += [[1 + 2 * f + (s == f) for s in range(m)] for f in range(m) for _ in (0, 1)]
        return Automaton(0, edges, [None] + [same for _ in range(m) for same in (0, 1)])
    if name == "mod_arith_ltr":  # 4 v: an operator must come; 4 v + 1, 2, 3: after v and + - x
        for v in range(m):
            edges.append([None] * m + [4 * v + 1, 4 * v + 2, 4 * v + 3])
            for results in zip(*((v + s, v - s, v * s) for s in range(m)), strict=True):
                edges.append([4 * (value % m) for value in results] + [None] * 3)
        return Automaton(1, edges, [a for v in range(m) for a in (v, None, None, None)])
    # 2 (f m + p) + (1: an operator must come), f + p so far, p may grow
    for f in range(m):
        for p in range(m):
            edges.append([2 * (f * m + p * s % m) + 1 for s in range(m)] + [None] * 3)
            plus, minus = 2 * ((f + p) % m * m + 1 % m), 2 * ((f + p) % m * m + (m - 1))
            edges.append([None] * m + [plus, minus, 2 * (f * m + p)])
    return Automaton(2, edges, [a for f in range(m) for p in range(m) for a in (None, (f + p) % m)])


def _flip_flop(name: str, settings: Any, symbols: int, carried: Automaton | None) -> Automaton:
    """Symbols w r i 0 1: w writes the bit after it, r asks for the bit written last, i is idle."""
    ignore = settings["ignore"]
    good = type(ignore) in (int, float) and 0 <= ignore < 1
    need(good and symbols == 5, "settings that flip_flop has not")
    # 0: w must come; 1: its bit; of a written bit b, 2 + 4 b: an instruction, then the bit after r
    # (+ 1) or after i (+ 2), and + 3: an instruction, just asked
    edges: Edges = [[1, None, None, None, None], [None, None, None, 2, 6]]
    for b in (0, 1):
        at, asked = 2 + 4 * b, 5 + 4 * b
        ready: list[int | None] = [1, at + 1, at + 2, None, None]
        edges += [ready, [None] * 3 + [asked, asked], [None] * 3 + [at, at], ready]
    return Automaton(0, edges, [None, None, None, None, None, 0, None, None, None, 1])


def _group(name: str, settings: Any, symbols: int, carried: Automaton | None) -> Automaton:
    """The product of the letters so far, of elements as permutations: (p q)(i) = p(q(i)).

    Letters are all elements, or those that move few points; else the first edges of the file.
    """
    elements = _elements(settings["group"])
    number = {p: at for at, p in enumerate(elements)}
    kind, most = settings["letters"], settings["letters_arg"]
    need(settings["ask"] in ("all", "last"), "a group that asks neither all nor last")
    usual = kind in ("all", "swaps", "move_at_most")
    with_identity = usual if settings["identity"] is None else settings["identity"]
    need(type(with_identity) is bool, "identity must be true, false or null")
    if usual:
        of_points = re.fullmatch(r"[SA]\d", settings["group"]) is not None
        need(kind == "all" or of_points, "letters by points, of a group that moves none")
        need(kind != "move_at_most" or type(most) is int, "a number of points that is none")
        few = {"all": math.inf, "swaps": 2, "move_at_most": most}[kind]
        moved = [sum(to != i for i, to in enumerate(p)) for p in elements]
        letters = [at for at in range(len(elements)) if moved[at] <= few and at > 0]
        letters = [0] * with_identity + letters
    else:
        need(kind in ("generators", "random"), "letters that this checker does not know")
        need(carried is not None, "an automaton must be in the file: its letters are not by rule")
        assert carried is not None
        first = carried.delta[carried.start]
        answers = [None if to is None else carried.answers[to] for to in first]
        letters = [-1 if answer is None else answer for answer in answers]
        need(all(0 <= at < len(elements) for at in letters), "letters that are no elements")
        need((0 in letters) == with_identity, "letters with, or without, the identity")
        drawn = len(letters) - with_identity
        need(kind == "generators" or drawn == most, "another number of random letters")
    need(len(set(letters)) == len(letters) == symbols, "successors of another shape")
    edges: Edges = [
        [number[tuple(p[i] for i in elements[letter])] for letter in letters] for p in elements
    ]
    source = BY_RULE if usual else OF_FILE  # which letters there are, the file tells
    return Automaton(0, edges, list(range(len(elements))), source)


def _elements(name: Any) -> list[tuple[int, ...]]:
    """Return a group's elements in the order of its classes: Z3, D4, S5, A5, A4xZ5, identity first.

    S and A: permutations in lexicographic order. D: n f + r is r turns of what f flipped, and two
    more points tell which side is up. G x H: i |H| + j, each on points of its own.
    """
    need(isinstance(name, str), "a group of another kind")
    found: list[tuple[int, ...]] = [()]
    for part in name.split("x"):
        match = re.fullmatch(r"([ZCDSA])([1-9]\d{0,3})", part)
        need(match is not None, "a group that this checker does not know")
        assert match is not None
        kind, n = match[1], int(match[2])
        need(n <= (6 if kind in "SA" else 1024), "a group that is too large")
        if kind in "SA":
            own = [p for p in itertools.permutations(range(n)) if kind == "S" or _even(p)]
        elif kind == "D":
            own = [
                (*((r - i if f else r + i) % n for i in range(n)), n + f, n + 1 - f)
                for f in (0, 1)
                for r in range(n)
            ]
        else:
            own = [tuple((k + i) % n for i in range(n)) for k in range(n)]
        need(len(found) * len(own) <= 1024, "a group that is too large")
        points = len(found[0])
        found = [(*p, *(points + i for i in q)) for p in found for q in own]
    return found


def _even(p: tuple[int, ...]) -> bool:
    return sum(a > b for a, b in itertools.combinations(p, 2)) % 2 == 0


def _of_dfa(settings: Any, machine: Automaton) -> bool:
    states, letters = len(machine.delta), len(machine.delta[0])
    columns = list(zip(*machine.delta, strict=True))
    moved = {"permutation": letters, "reset": letters - 1}.get(settings["kind"], 0)
    by_state = machine.answers == list(range(states))
    return (
        (settings["states"], settings["letters"], machine.start) == (states, letters, 0)
        and all(to is not None for row in machine.delta for to in row)
        and all(len(set(column)) == states for column in columns[:moved])
        and (settings["kind"] != "reset" or len(set(columns[-1])) == 1)
        and settings["kind"] in ("uniform", "permutation", "reset", "aperiodic")
        and settings["target"] in ("state", "accept")
        and (by_state if settings["target"] == "state" else set(machine.answers) <= {0, 1})
        and settings["ask"] in ("all", "last")
        and type(settings["automaton"]) is int
        and type(settings["reset_p"]) in (int, float)
    )


def _of_two_letters(settings: Any, machine: Automaton) -> bool:
    complete = all(to is not None for row in machine.delta for to in row)
    return complete and len(machine.delta[0]) == 2 and set(machine.answers) <= {0, 1}


def _of_brackets(settings: Any, machine: Automaton) -> bool:
    kinds, depth = settings["kinds"], settings["depth"]
    good = type(kinds) is int and type(depth) is int and len(machine.delta[0]) == 2 * kinds
    return good and len(machine.delta) == sum(kinds**d for d in range(depth + 1))


# each task: its settings and its rule, or what can be checked of an automaton from a file
KNOWN: dict[str, tuple[tuple[str, ...], Any]] = {
    "sum": (("modulus",), _modular),
    "parity": (("modulus",), _modular),
    "even_pair": (("modulus",), _modular),
    "mod_arith": (("modulus",), _modular),
    "mod_arith_ltr": (("modulus",), _modular),
    "flip_flop": (("ignore",), _flip_flop),
    "group": (("group", "letters", "letters_arg", "letters_seed", "identity", "ask"), _group),
    "dfa": (("states", "letters", "kind", "automaton", "target", "reset_p", "ask"), _of_dfa),
    "regular": (("language", "n"), _of_two_letters),
    "dyck": (("kinds", "depth"), _of_brackets),
}
OF_THE_FILE = ("dfa", "regular", "dyck")
