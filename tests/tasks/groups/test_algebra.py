"""Groups by what is known of them: order, conjugacy classes, derived series, laws."""

from __future__ import annotations

from itertools import combinations, product

import numpy as np
import pytest

from lrbench.tasks.groups.algebra import FiniteGroup, cycles, group

# name: (order, conjugacy classes, orders of the derived series until it stops)
KNOWN = {
    "Z60": (60, 60, [60, 1]),
    "D3": (6, 3, [6, 3, 1]),
    "D4": (8, 5, [8, 2, 1]),
    "D5": (10, 4, [10, 5, 1]),
    "S3": (6, 3, [6, 3, 1]),
    "A4": (12, 4, [12, 4, 1]),
    "S4": (24, 5, [24, 12, 4, 1]),
    "A5": (60, 5, [60]),
    "S5": (120, 7, [120, 60]),
    "A6": (360, 7, [360]),
    "A4xZ5": (60, 20, [60, 4, 1]),
    "Z2xZ4": (8, 8, [8, 1]),
    "S3xS3": (36, 9, [36, 9, 1]),
}


def inverses(made: FiniteGroup) -> list[int]:
    return [row.index(0) for row in made.table.tolist()]


def closure(made: FiniteGroup, members: set[int]) -> set[int]:
    """All products of `members`, found by multiplying until nothing is new."""
    found = {0} | members
    while True:
        more = found | {int(made.table[a, b]) for a in found for b in members}
        if more == found:
            return found
        found = more


def conjugacy_classes(made: FiniteGroup) -> int:
    inverse, table = inverses(made), made.table
    found = {
        frozenset(int(table[table[g, x], inverse[g]]) for g in range(made.order))
        for x in range(made.order)
    }
    return len(found)


def derived_series(made: FiniteGroup) -> list[int]:
    inverse, table = inverses(made), made.table.tolist()
    members, orders = set(range(made.order)), [made.order]
    while True:
        commutators = {
            table[table[a][b]][table[inverse[a]][inverse[b]]] for a in members for b in members
        }
        members = closure(made, commutators)
        if len(members) == orders[-1]:
            return orders
        orders.append(len(members))


@pytest.mark.parametrize("name", KNOWN)
def test_order_classes_and_derived_series(name: str) -> None:
    made = group(name)
    assert (made.order, conjugacy_classes(made), derived_series(made)) == KNOWN[name]


@pytest.mark.parametrize("name", [*KNOWN, "D2", "S2", "A3", "S6", "Z2xZ2xZ2"])
def test_tables_are_latin_squares_with_the_identity_first(name: str) -> None:
    made = group(name)
    everyone = np.arange(made.order)
    assert (np.sort(made.table, 0) == everyone[:, None]).all()
    assert (np.sort(made.table, 1) == everyone).all()
    assert (made.table[0] == everyone).all() and (made.table[:, 0] == everyone).all()
    assert len(set(made.names)) == len(set(made.moves)) == made.order
    assert made.generated(made.generators) == len(closure(made, set(made.generators)))
    assert made.generated(made.generators) == made.order


@pytest.mark.parametrize("name", [name for name in KNOWN if KNOWN[name][0] <= 60])
def test_products_are_associative(name: str) -> None:
    table = group(name).table
    assert (table[table] == table[:, table]).all()  # [i, j, k]: (i j) k and i (j k)


@pytest.mark.parametrize("name", [*KNOWN, "D2", "Z2xD3"])
def test_products_are_maps_of_points_the_right_one_first(name: str) -> None:
    made = group(name)
    moves = np.array(made.moves)
    assert all((moves[a][moves[b]] == moves[made.table[a, b]]).all() for a, b in pairs(made))


def pairs(made: FiniteGroup) -> list[tuple[int, int]]:
    """All pairs of elements, of a large group every seventh."""
    return list(product(range(made.order), repeat=2))[:: 1 if made.order <= 60 else 7]


def test_permutations_in_one_line_notation_multiply_as_maps() -> None:
    made = group("S4")
    for left, right in product(made.names, repeat=2):
        product_ = "".join(left[int(point)] for point in right)
        index = made.table[made.names.index(left), made.names.index(right)]
        assert made.names[index] == product_


def test_the_orders_of_elements() -> None:
    assert group("S3").names == ("012", "021", "102", "120", "201", "210")
    assert group("A4").names[:4] == ("0123", "0231", "0312", "1032")
    assert group("D3").names == ("e", "r", "r2", "s", "rs", "r2s")
    assert group("S3xZ2").names[:4] == ("(012,0)", "(012,1)", "(021,0)", "(021,1)")
    table = group("A4xZ5").table
    assert table[7, 13] == 5 * group("A4").table[1, 2] + (2 + 3) % 5
    assert group("C2xC4").names == group("Z2xZ4").names


def test_the_generators_of_a5_are_those_that_were_published() -> None:
    made = group("A5")
    assert made.generators == (16, 13)
    assert [made.names[g] for g in made.generators] == ["12340", "10324"]


def test_dihedral_letters_are_a_turn_and_a_flip() -> None:
    made = group("D5")
    r, s = made.generators
    assert (made.names[r], made.names[s]) == ("r", "s")
    turned = int(made.table[made.table[s, r], s])  # s r s is the turn back
    assert made.table[turned, r] == 0


@pytest.mark.parametrize(
    "name", ["S9", "Z0", "Z1", "S1", "D1", "A2", "A7", "Q8", "S3x", "", "x", "s3", "Z-3", "S3 x S3"]
)
def test_no_such_group(name: str) -> None:
    with pytest.raises(ValueError, match=r"(?s)task\.group '.*' is .*S2 to S6, A3 to A6"):
        group(name)


@pytest.mark.parametrize(
    ("name", "order"), [("Z1025", "1,025"), ("D513", "1,026"), ("S6xZ2", "1,440")]
)
def test_too_large_a_group(name: str, order: str) -> None:
    with pytest.raises(ValueError, match=f"has {order} elements"):
        group(name)


def test_subgroups_are_counted() -> None:
    made = group("S4")
    for pair in combinations(range(made.order), 2):
        assert made.generated(pair) == len(closure(made, set(pair)))


@pytest.mark.parametrize("name", ["S3", "A5", "S6"])
def test_cycles_name_the_elements_of_a_group(name: str) -> None:
    """Read back by hand: in (012)(34) each point goes to the next in its bracket."""
    made = group(name)
    for element, moves in enumerate(made.moves):
        goes = {point: point for point in range(len(moves))}
        text = made.written(element)
        for cycle in text.strip("()").split(")("):
            if text != "e":
                points = list(map(int, cycle))
                goes |= dict(zip(points, points[1:] + points[:1], strict=True))
        assert tuple(goes[point] for point in range(len(moves))) == moves
    assert cycles((1, 2, 0, 4, 3)) == "(012)(34)"
    assert made.written(0) == "e"
    assert group("D3").written(4) == group("D3").names[4]
