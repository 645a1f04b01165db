"""What depends on a notion stands in `riskalign/data/notions.py`: no other file compares names."""

import ast
from pathlib import Path

import riskalign
from riskalign.data.notions import NOTIONS

SOURCE = Path(riskalign.__file__).parent
OBJECTS = {"BINARY", "TOP_LABEL", "CLASSWISE", "CANONICAL"}


def is_name_of_a_notion(node):
    """`"classwise"`, `CLASSWISE.name` or `case.notion.name`, alone or in a tuple, list or set."""
    if isinstance(node, ast.Tuple | ast.List | ast.Set):
        return any(map(is_name_of_a_notion, node.elts))
    if isinstance(node, ast.Constant):
        return node.value in NOTIONS
    if not isinstance(node, ast.Attribute) or node.attr != "name":
        return False
    owner = node.value
    of = owner.attr if isinstance(owner, ast.Attribute) else getattr(owner, "id", "")
    return of in OBJECTS or "notion" in of


def comparisons(source):
    """Lines that compare the name of a notion, and cases of a `match` by it."""
    for node in ast.walk(ast.parse(source)):
        sides = [node.left, *node.comparators] if isinstance(node, ast.Compare) else []
        if isinstance(node, ast.MatchValue):
            sides = [node.value]
        if any(map(is_name_of_a_notion, sides)):
            yield node.lineno


def test_no_other_file_compares_the_name_of_a_notion():
    found = [
        f"{path.relative_to(SOURCE)}:{line}"
        for path in sorted(SOURCE.rglob("*.py"))
        if path != SOURCE / "data" / "notions.py"
        for line in comparisons(path.read_text())
    ]
    assert found == [], "ask a property of Notion in place of its name"


def test_comparisons_are_seen():
    source = """
if notion == "classwise" or x not in (None, TOP_LABEL.name): pass
a = notions.BINARY.name != b
c = self.case.notion.name is d
e = name == "binary words" or f in NOTIONS
match notion:
    case "canonical": pass
"""
    assert sorted(comparisons(source)) == [2, 2, 3, 4, 7]
