"""Free names against tables of cases, and against what running the code really reads."""

from __future__ import annotations

import ast
import builtins
import contextlib
import os
import subprocess
import sys
import textwrap
from pathlib import Path

import cloudpickle
import other_python
import policy
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from jupyter_jax_trainer.capture.names import (
    analyze,
    assigned_names,
    nearest_name,
    undefined_names,
)

CASES = [
    ("x", "x"),
    ("x = 1\nx", ""),
    ("x = x + 1", "x"),
    ("x += 1", "x"),
    ("a.b.c = d", "a d"),
    ("a[i] = v", "a i v"),
    ("print(len(x))", "print len x"),
    ("del x", "x"),
    ("x = 1\ndel x\nx", "x"),
    ("if c:\n x = 1\nx", "c x"),
    ("if c:\n x = 1\nelse:\n x = 2\nx", "c"),
    ("if True:\n x = 1\nx", ""),
    ("for i in xs:\n y = i\ny", "xs y"),
    ("for i in (1, 2):\n y = i\ny, i", ""),
    ("for i in range(3):\n y = i\ny", "range"),
    ("for i in xs:\n pass\nelse:\n z = 1\nz", "xs"),
    ("while c:\n x = 1\nx", "c x"),
    ("while True:\n x = 1\n break\nx", ""),
    ("while True:\n if c:\n  break\n x = 1\nx", "c x"),
    ("for i in xs:\n if i:\n  continue\n y = i\n y", "xs"),
    ("try:\n x = f()\nexcept E:\n pass\nx", "f E x"),
    ("try:\n x = f()\nexcept E:\n raise\nx", "f E"),
    ("try:\n x = f()\nexcept E as e:\n x = e\nx", "f E"),
    ("try:\n pass\nfinally:\n x = 1\nx", ""),
    ("try:\n x = 1\nfinally:\n x", "x"),
    ("with a as b:\n x = b\nx", "a"),
    ("with suppress(E):\n x = 1\nx", "suppress E x"),
    ("match v:\n case [a, *b]:\n  r = a\n case _:\n  r = 0\nr", "v"),
    ("match v:\n case {'k': a, **rest}:\n  r = a, rest\nr", "v r"),
    ("match v:\n case C(p=q) if q > t:\n  q", "v C t"),
    ("[i for i in xs if i in ys]", "xs ys"),
    ("[j for i in xs for j in i]", "xs"),
    ("{k: v for k, v in d.items()}", "d"),
    ("[y := f(x) for x in xs]\ny", "f xs y"),
    ("(y := 1)\ny", ""),
    ("a and (b := 1)\nb", "a b"),
    ("(lambda a: a + b)(c)", "b c"),
    ("[(lambda: i + j) for i in xs]", "xs j"),
    ("def f(a=d): return a + g", "d"),
    ("def f(a=d): return a + g\nf()", "d g"),
    ("def f(): return G\nG = 1\nf()", ""),
    ("def f(): return g()\ndef g(): return h\nf()", "h"),
    ("def f(): return f()\nf()", ""),
    ("def f():\n def inner(): return deep\n return inner\nf", "deep"),
    ("def f():\n x = 1\n def inner():\n  nonlocal x\n  x = 2\n return inner\nf", ""),
    ("@deco\ndef f(): return g", "deco g"),
    ("def f(a: A) -> B: pass", "A B"),
    ("from __future__ import annotations\ndef f(a: A) -> B: pass", ""),
    ("x: T = v", "T v"),
    ("class C(Base, metaclass=M):\n a = b\n c = a", "Base M b"),
    ("class C:\n x = 1\n def m(self): return x", ""),
    ("@register\nclass C:\n def m(self): return x, C", "register x"),
    ("class C(Base):\n def m(self): return x", "Base x"),
    ("class C:\n x = 1\n def m(self): return x\nC", "x"),
    ("class C:\n def m(self): return super().m() + __class__.k\nC", "super"),
    ("class C:\n xs = [1]\n ys = [x for x in xs]", ""),
    ("class C:\n xs = [1]\n ys = [x for x in [0] if xs]", "xs"),
    ("def f():\n global n\n n = 1\nf()\nn", "n"),
    ("import a.b, c as d\nfrom e import f as g\na, d, g", ""),
    ("import a.b\nb", "b"),
    ("from m import *\nx", "x"),
    ("f'{x!r:>{w}}'", "x w"),
    ("a < (b := c) < (d := e)\nb\nd", "a c e d"),
    ("x if c else y", "c x y"),
    ("assert x, y", "x y"),
    ("raise X\ny", "X"),
    ("async def f():\n async with a: await b\nawait f()", "a b"),
    ("{(k := 1): k}", ""),
    (
        "import jax\n@jax.jit\ndef step(p): return helper(p)\ndef helper(p): return p\nstep(1)",
        "helper",
    ),
    ("f = lambda: later\nlater = 1\nf()", "later"),
    ("def f(x):\n try:\n  return x\n except ValueError as e:\n  return e\nf", "ValueError"),
    ("x = y = z\ny", "z"),
    ("(a, *b), c = d\na, b, c", "d"),
    ("print(*xs, **kw)", "print xs kw"),
]


@pytest.mark.parametrize(("code", "expected"), CASES)
def test_free_names(code, expected):
    assert set(analyze(ast.parse(code)).lines) == set(expected.split())


def test_type_parameters():
    """They are new in Python 3.12, which is looked for when this one is older."""
    code = (
        "def f[T: B](x: T) -> T: return x, g\ntype A[X] = list[X]\n"
        "class C[Y](Base):\n z: Y\n def m(self): return Y\nf(1), C, A"
    )
    python = Path(sys.executable)
    if sys.version_info < (3, 12):
        try:
            _, python = other_python.find_other()
        except other_python.Unavailable as reason:
            policy.skip_or_fail("other-python", str(reason))
    program = (
        "import ast, sys; from jupyter_jax_trainer.capture.names import analyze; "
        "print(*sorted(analyze(ast.parse(sys.argv[1])).lines))"
    )
    pure = Path(cloudpickle.__file__).parents[1]  # all that the package imports from there
    done = subprocess.run(
        [python, "-c", program, code],
        capture_output=True,
        text=True,
        check=True,
        cwd=Path(__file__).parents[2],
        env={**os.environ, "PYTHONPATH": str(pure)},
    )
    assert done.stdout.split() == ["B", "Base", "g", "list"]


def test_lines_are_those_of_the_first_reading():
    assert analyze(ast.parse("\na = 1\nb = c\nd = c + e")).lines == {"c": 3, "e": 4}


def test_certain_names():
    free = analyze(ast.parse("for x in data:\n loss = f(x)\nprint(loss)\ny = y + 1"))
    assert free.certain == {"data", "f", "print", "y"}


def test_names_behind_functions_from_outside():
    outside = {"train": {"step": None, "G": None}, "step": {"data": None}}
    free = analyze(ast.parse("G = 1\ntrain(p)"), lambda name: outside.get(name, {}))
    assert set(free.lines) == {"train", "p", "step", "data"}
    assert free.via == {"step": "train", "data": "step"}


def test_assigned_names():
    code = """
    import a.b
    from c import d as e
    for f, [g, *h] in x: pass
    with y as i: pass
    def j(): k = 1; global l; l = 2
    class M: n = 1
    try: o = 1
    except E as p: pass
    [q for q in z if (r := q)]
    match s:
        case {"t": u, **v}: pass
    """
    assert assigned_names(ast.parse(textwrap.dedent(code))) == set("aefghijlMopruv")


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        ("parms + 1", [("parms", 1)]),
        ("x = 1\nprint(x, len(x), __name__)", []),
        ("from m import *\nanything", []),
        ("exec('q = 1')\nq", []),
        ("try:\n unicode\nexcept NameError:\n pass", []),
        ("if c:\n q = 1\nq", [("c", 1)]),
        ("def f(): return never_called", []),
        ("def f(): return called\nf()", [("called", 2)]),
        ("q = 1\ndel q\nq", []),
        ("def f():\n class C:\n  a = 1\n  b = a\n return C\nf()", []),
    ],
)
def test_undefined_names(code, expected):
    found = undefined_names(ast.parse(code), {"known"})
    assert found == expected


def test_nearest_name():
    assert nearest_name("parms", ["params", "data"]) == "params"
    assert nearest_name("Params", ["params"]) == "params"
    assert nearest_name("zzz", ["params"]) is None


# ---- against real runs

NAMES = list("abcde")
name = st.sampled_from(NAMES)


def block(statements):
    return "\n".join("    " + line for line in "\n".join(statements or ["pass"]).splitlines())


expression = st.recursive(
    name | st.integers(0, 3).map(str),
    lambda inner: st.one_of(
        st.builds("({} + {})".format, inner, inner),
        st.builds("({} if {} else {})".format, inner, inner, inner),
        st.builds("({} and {})".format, inner, inner),
        st.builds("({} := {})".format, name, inner),
        st.builds("(lambda: {})()".format, inner),
        st.builds(
            "sum([{} for {} in range({} % 3)])".format,
            inner.filter(lambda e: ":=" not in e),
            name,
            inner.filter(lambda e: ":=" not in e),
        ),
        st.builds("({} < {} < {})".format, inner, inner, inner),
        st.builds("len({{{}: {}, {}: {}}})".format, inner, inner, inner, inner),
    ),
    max_leaves=4,
)

simple = st.one_of(
    st.builds("{} = {}".format, name, expression),
    st.builds("{} += {}".format, name, expression),
    st.builds("{}: int = {}".format, name, expression),
    expression,
    st.builds("del {}".format, name),
)
body = st.lists(simple, min_size=1, max_size=3)
loop_body = st.lists(
    simple | st.builds("if {}: {}".format, expression, st.sampled_from(["break", "continue"])),
    max_size=4,
)
statement = st.one_of(
    simple,
    st.builds(lambda c, a, b: f"if {c}:\n{block(a)}\nelse:\n{block(b)}", expression, body, body),
    st.builds(
        lambda n, e, a, b: f"for {n} in range({e} % 3):\n{block(a)}\nelse:\n{block(b)}",
        name,
        expression,
        loop_body,
        body,
    ),
    st.builds(lambda a, n: f"for {n} in (0, 1):\n{block(a)}", loop_body, name),
    st.builds(
        lambda e, a, b: (
            f"for _ in (0, 1):\n    while {e}:\n{block([block(a)])}\n"
            f"        break\n    else:\n{block([block(b)])}"
        ),
        expression,
        loop_body.filter(lambda a: not any("continue" in line for line in a)),
        body,
    ),
    st.builds(
        lambda a, b, c, n: (
            f"try:\n{block(a)}\n    1 / {n}\nexcept ZeroDivisionError as e:\n"
            f"{block(b)}\nfinally:\n{block(c)}"
        ),
        body,
        body,
        body,
        name,
    ),
    st.builds(
        lambda n, d, a: (
            f"def {n}({n}={d}, *args):\n{block(a)}\n    return 1"
            if not any(line.startswith("del") for line in a)
            else "pass"
        ),
        st.sampled_from(["f", "g"]),
        expression,
        st.lists(st.builds("{}".format, expression.filter(lambda e: ":=" not in e))),
    ),
    st.sampled_from(["f()", "g()"]),
    st.builds(lambda a: f"class C:\n{block(a)}", body),
    st.builds(
        lambda e, n, a, b: (
            f"match {e}:\n    case 0 | 1:\n{block([block(a)])}\n"
            f"    case {n} if {n} > 2:\n{block([block(b)])}"
        ),
        expression,
        name,
        body,
        body,
    ),
)


BUILTINS = {
    name: getattr(builtins, name)
    for name in ("range", "sum", "int", "len", "ZeroDivisionError", "__build_class__")
}


class Recorder(dict):
    """Globals that give any name which is not bound, and remember which."""

    def __init__(self):
        super().__init__(__builtins__=BUILTINS, __name__="__main__")
        self.asked = set()

    def __missing__(self, key):
        if key in BUILTINS or key.startswith("__"):
            raise KeyError(key)
        self.asked.add(key)
        return (lambda: 1) if key in "fg" else 1


@pytest.mark.slow
@settings(max_examples=300)
@given(st.lists(statement, min_size=1, max_size=7))
def test_free_names_hold_all_that_a_run_reads(statements):
    code = "\n".join(statements)
    try:
        tree = ast.parse(code)
        compiled = compile(code, "<cell>", "exec")
    except SyntaxError:
        return
    found = set(analyze(tree).lines)
    recorder = Recorder()
    with contextlib.suppress(Exception):  # what was read until then counts
        exec(compiled, recorder)
    assert recorder.asked <= found, code

    # With just the names that were found, no name is missing: neither at the top level nor in
    # functions. Names deleted twice and the like are the program's own faults.
    def run(namespace):
        namespace["__builtins__"] = BUILTINS
        try:
            exec(compiled, namespace)
        except NameError as error:
            return f"NameError {error}"
        except Exception:
            return None
        return None

    everything = dict.fromkeys(NAMES, 1) | {"f": lambda: 1, "g": lambda: 1, "__name__": "m"}
    assert run({k: v for k, v in everything.items() if k in found or k == "__name__"}) == run(
        dict(everything)
    ), code
