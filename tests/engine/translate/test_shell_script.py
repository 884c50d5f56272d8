"""What a shell makes of a script, compared with bash itself."""

from __future__ import annotations

import shlex
import subprocess
from collections.abc import Sequence
from contextlib import suppress

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from engine.translate.shell_script import Script, follow
from engine.translate.shell_state import Unknown
from engine.translate.shell_words import ShellError

WORDS = st.lists(st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=12))


def words_of(script: str, arguments: Sequence[str] = ()) -> list[str]:
    """The words after ``show``, the only program of the script."""
    (command,) = follow(script, arguments, {"HOME": "/home/ann"}).commands
    return [argument.text for argument in command.arguments[1:]]


@given(WORDS)
def test_any_quoted_words_are_read_back(words: list[str]) -> None:
    assert words_of(f"show {shlex.join(words)}") == words


@given(
    st.lists(
        st.sampled_from(["a", " ", '"', "'", "\\", "$V", "${V}", "#", "\n", "=", "$", "${W:-d e}"])
    )
)
def test_words_are_those_of_bash(parts: list[str]) -> None:
    script = f"V='x  y'\nshow {''.join(parts)}"
    try:
        script_read = follow(script, (), {})
    except ShellError:
        return
    if len(script_read.commands) != 1:
        return  # A line break began another command.
    arguments = script_read.commands[0].arguments[1:]
    if any(argument.problem for argument in arguments):
        return
    words = [argument.text for argument in arguments]
    program = "set -f\nshow() { printf '%s\\0' \"$@\"; }\n" + script
    bash = subprocess.run(["bash", "-c", program], capture_output=True, check=False)
    assert bash.returncode == 0, bash.stderr
    expected = bash.stdout.decode().split("\0")[:-1]
    # printf without a word prints one empty word.
    assert words == expected or (not words and expected == [""])


@pytest.mark.parametrize(
    ("script", "words"),
    [
        ("A=1\nshow k=$A ${A}b", ["k=1", "1b"]),
        ("show ${A:-d} ${A-e} ${B:=f} $B", ["d", "e", "f", "f"]),
        ("A=\nshow ${A:-d} [${A-e}]", ["d", "[]"]),
        ("A=x\nshow ${A:+yes}${B:+no}", ["yes"]),
        ("show '$HOME' \"$HOME/x\"", ["$HOME", "/home/ann/x"]),
        ("A='a=1 b=2'\nshow $A \"$A\"", ["a=1", "b=2", "a=1 b=2"]),
        ("show a \\\n  b # c\n", ["a", "b"]),
        ("show a=b#c", ["a=b#c"]),
        ("show $((-7 / 2)) $((-7 % 4))", ["-3", "-3"]),
        ("p=2\nshow n=$(( (p + 1) * 4 / 5 )) $((7 % 4))", ["n=2", "3"]),
        ('A=(a=1 # one\n b=2)\nA+=(c=3)\nshow "${A[@]}"', ["a=1", "b=2", "c=3"]),
        ("A=x\nA+=y\nshow $A", ["xy"]),
        ("show \"['a','b']\" '[\"c\"]'", ["['a','b']", '["c"]']),
        ("show a 2>&1 | tee log > /dev/null", ["a"]),
        ("show $'a\\nb'", ["a\nb"]),
        ('cat <<EOF\nshow x "\nEOF\nshow a', ["a"]),
        ("export A=1 B='2 3'\nshow $A \"$B\"", ["1", "2 3"]),
        ("unset A\nshow a", ["a"]),
    ],
)
def test_words_after_expansion(script: str, words: list[str]) -> None:
    commands = [
        c
        for c in follow(script, (), {"HOME": "/home/ann"}).commands
        if c.arguments[0].text == "show"
    ]
    assert [argument.text for argument in commands[0].arguments[1:]] == words


def test_arguments_of_the_script_take_their_places() -> None:
    script = 'N=$1\nshift\nshow n=$N "$@" $#'
    assert words_of(script, ["8", "a b", "c"]) == ["n=8", "a b", "c", "2"]


@pytest.mark.parametrize("head", ["f()", "function f", "function f()", "f ()"])
def test_after_a_function_values_are_certain(head: str) -> None:
    assert words_of(f"{head} {{\n B=1\n}}\nA=2\nshow $A $@", ["x"]) == ["2", "x"]


def test_the_working_folder_is_known() -> None:
    (command,) = follow('show "$(pwd)/a" `pwd`', (), {"PWD": "/home/ann"}).commands
    assert [argument.text for argument in command.arguments[1:]] == ["/home/ann/a", "/home/ann"]


def test_no_arguments_are_no_words() -> None:
    assert words_of('show a $@ "$@"') == ["a"]


@pytest.mark.parametrize(
    ("script", "reason"),
    [
        ("show k=$(date)", "$(date) needs a shell"),
        ("show k=`date`", "`date` needs a shell"),
        ("A=a/b\nshow ${A/a/c}", "${A/a/c} needs a shell"),
        ("show ${A##*/}", "A is not set in the script"),
        ("show $((2 * (A + 1)))", "A is not set in the script"),
        ("while read L; do P=1; done\nshow $((P * 2))", "P in $((P * 2)): the loop 'while' in"),
        ("show $A", "A is not set in the script"),
        ("source env.sh\nshow $A", "A is not set in the script; env.sh, which line 1 reads, may"),
        ("show $1", "it is argument 1 of the script; give it after the file"),
        ("if [ -z $X ]; then A=1; else A=2; fi\nshow $A", "the 'if' in line 1 decides it"),
        ("for i in $X; do\n A=$i\ndone\nshow $A", "the loop 'for' in line 1 decides it"),
        ("for i in *.json; do\n A=$i\ndone\nshow $A", "the loop 'for' in line 1 decides it"),
        ("while [ -f x ]; do\n A=1\ndone\nshow $A", "the loop 'while' in line 1 decides it"),
        ("for i in 1 2; do show $i; done", "line 1 is executed several times"),
        ("case $X in\n a|b) A=1;;\nesac\nshow $A", "the case in line 1 decides it"),
        ("f() {\n show $1\n}", "it is an argument of the function in line 1"),
        ("if [ -e x ]; then set -- a; fi\nshow $1", "the 'if' in line 1 decides it"),
        ("[ -n $X ] && A=1\nshow $A", "a condition in line 1 decides it"),
        ("A_TOKEN=abcd1234efgh\nshow $A_TOKEN", "A_TOKEN is a secret: set it in .env"),
    ],
)
def test_what_only_a_shell_knows_has_a_reason(script: str, reason: str) -> None:
    commands = follow(script, (), {}).commands
    (argument,) = commands[-1].arguments[1:]
    assert argument.problem is not None and argument.problem.startswith(reason)


def test_a_word_of_an_array_keeps_its_reason_and_line() -> None:
    (command,) = follow('A=(a=1\n b=$(x))\nshow "${A[@]}"', (), {}).commands
    assert [(a.line, a.problem) for a in command.arguments[1:]] == [
        (1, None),
        (2, "$(x) needs a shell"),
    ]


def test_variables_before_a_program_are_its_own() -> None:
    (command,) = follow("A=1 show a", (), {}).commands
    assert [(export.name, export.value) for export in command.exports] == [("A", "1")]


def test_exports_say_whether_a_word_has_their_value() -> None:
    exports = follow("export A=1 B=$(x)\nshow $A", (), {}).exports
    assert [(export.name, export.is_used) for export in exports] == [("A", True), ("B", False)]
    assert exports[1].value == Unknown("$(x) needs a shell")


@pytest.mark.parametrize(
    ("script", "line"), [("a\nb 'c", 2), ('a "b', 1), ("a\n\n$(b", 3), ("a `b", 1), ("${a", 1)]
)
def test_a_script_that_no_shell_reads_names_the_line(script: str, line: int) -> None:
    with pytest.raises(ShellError) as raised:
        follow(script, (), {})
    assert raised.value.line == line


@pytest.mark.parametrize(("start", "step"), [("A=xxxx", "A=$A$A"), ("A=(x)", 'A+=("${A[@]}")')])
def test_a_value_that_doubles_without_end_is_refused(start: str, step: str) -> None:
    with pytest.raises(ShellError, match="expand to more than"):
        follow("\n".join([start, *[step] * 200]), (), {})


@pytest.mark.parametrize("closing", ["", ")", "}", ')"'])
@pytest.mark.parametrize("opening", ["$(", '"$(', "${a:-", "<("])
def test_brackets_without_end_or_very_deep_ones_are_refused(opening: str, closing: str) -> None:
    with pytest.raises(ShellError):
        follow(f"show {opening * 5000}{closing * 5000}", (), {})


@given(st.text(alphabet="ab$(){}[]'\"\\`;&|<>#= \n", max_size=40))
def test_any_text_is_followed_or_refused(script: str) -> None:
    with suppress(ShellError):
        assert isinstance(follow(script, ["x"], {}), Script)


@pytest.mark.parametrize(
    ("script", "words"),
    [
        ("show $(($1 * 2)) $((${2}+1))", ["16", "5"]),
        ("N=1\ncd /tmp\nshow $PWD $(pwd)/a", ["/tmp", "/tmp/a"]),
        ("A=(a=1 b=2)\nshow $A", ["a=1"]),
        ("A=(a=1 b=2)\nA+=0\nshow ${A[@]}", ["a=10", "b=2"]),
        ('A=(a b)\nIFS=,\nshow "[${A[*]}]"', ["[a,b]"]),
        ('n=1\nshift $n\nshow "$@"', ["4"]),
        ('shift 5\nshow "$@"', ["8", "4"]),
        ('set a=4\nshow "$@"', ["a=4"]),
        (": ${N:=8}\nshow $N", ["8"]),
        ("D=~/data\nshow $D", ["/home/ann/data"]),
        ("N=1\n(true)\nshow $N", ["1"]),
        ("show a `# it's one` b $( # two\n) c", ["a", "b", "c"]),
        ("A=$(cat <<'E'\nit's )\nE\n)\nshow a", ["a"]),
        ("A=$(date # it's ( today\n)\nshow a", ["a"]),
        ("A=$(case x in a) echo 1;; (x) echo 2;; esac; echo case)\nshow a", ["a"]),
        ('A="$(echo "it\'s" # "\n)"\nshow a', ["a"]),
        ("A=(a b)\nA[1]=c\nA[2]=d\nshow ${A[@]}", ["a", "c", "d"]),
        ("A=a\nA[1]=b\nshow ${A[@]}", ["a", "b"]),
        ("A[0]=x B=1\nshow $A $B", ["x", "1"]),
        ("export N=1 && M=2\nshow $N $M", ["1", "2"]),
        ('N=3\n[ "$1" = 8 ] && { X=1; N=2; }\nshow $N', ["2"]),
        ("N=3\n(N=4)\necho x | N=4\nN=5 &\nshow $N", ["3"]),
        ('N=4\neval "N=8"\nshow $N', ["8"]),
        ("N=1\nrun() { show $N $1 $#; }\nN=2\nrun 7", ["2", "7", "1"]),
        ("f() { local A=1; B=$A; return 0; B=2; }\nA=5\nf\nshow $A $B", ["5", "1"]),
        ("N=1\n! true && N=3\nfalse || N=4\nshow $N", ["4"]),
        ("N=1\nshift 9 && N=3\nshow $N", ["1"]),
        ("for i in 1 2; do A=$i; done\nshow $A", ["2"]),
        ('for a in "$@"; do A+=("k=$a"); done\nshow "${A[@]}"', ["k=8", "k=4"]),
        ("while [ $# -gt 1 ]; do A=$1; shift; done\nshow $A $1", ["8", "4"]),
        ("N=0\nuntil ((N >= 3)); do N=$((N + 1)); [[ $N == 2 ]] && break; done\nshow $N", ["2"]),
        ("case $1-$2 in 9*|?-[0-4]) A=1;; *) A=2;; esac\nshow $A", ["1"]),
        ('[[ "$1" == 8* && ! ( $2 -gt 4 || -z $1 ) ]] && A=1\nshow $A', ["1"]),
        ('if [ $1 -lt 8 ]; then A=1; elif test -n "$2"; then A=2; else A=3; fi\nshow $A', ["2"]),
        ("A=-l=x/b.c\nshow ${A#*=} ${A##*/} ${A%.*} ${A%%=*}", ["x/b.c", "b.c", "-l=x/b", "-l"]),
        ("A=(a 'b c')\nshow ${#A[@]} ${A[1]} ${#A}", ["2", "b", "c", "1"]),
        (
            'set -- -b 3 -c x\nwhile getopts "b:ch" o; do\n'
            " case $o in b) B=$OPTARG;; c) C=1;; esac\n"
            "done\nshift $((OPTIND - 1))\nshow $B $C $1",
            ["3", "1", "x"],
        ),
        ("f() { [ -e / ] || return 1; show $1; }\nf 7", ["7"]),
        ("case 8 in 8) A=1;;& 9) A=2;; ?) B=$A;& x) C=3;; esac\nshow $A $B $C", ["1", "1", "3"]),
        ('A=()\nfor i in "$@"; do A+=($i); done\nshow ${A[@]}', ["8", "4"]),
        ("A=b\nIFS=,\nB=1,2\nshow $B $A", ["1", "2", "b"]),
    ],
)
def test_words_are_those_that_bash_passes(script: str, words: list[str]) -> None:
    commands = follow(script, ["8", "4"], {"HOME": "/home/ann", "PWD": "/home/ann"}).commands
    [command] = [each for each in commands if each.arguments[0].text == "show"]
    assert [argument.text for argument in command.arguments[1:]] == words
    program = f"show() {{ printf '%s\\n' \"$@\"; }}\n{script}"
    bash = subprocess.run(
        ["bash", "-c", program, "script", "8", "4"],
        env={"HOME": "/home/ann"},
        cwd="/",
        capture_output=True,
        check=True,
    )
    assert bash.stdout.decode().splitlines() == words


@pytest.mark.parametrize(
    "script",
    [
        "N=010\nshow $((N * 2))",
        "N=4\n((N*=2))\nshow $N",
        "N=4\n(( N = 8 ))\nshow $N",
        "N=4\nlet N=8\nshow $N",
        "N=4\nread N <<< 8\nshow $N",
        "N=4\nprintf -v N %d 8\nshow $N",
        "cd $(mktemp -d)\nshow $PWD",
        "shift $(true)\nshow $1",
        "N=1\ncd x && N=3\nshow $N",
        "N=1\nmkdir /x && N=3\nshow $N",
        "N=1\nA=$(false) && N=3\nshow $N",
        "A[5]=x\nshow $A",
        "A=(a)\nA[$1]=x\nshow $A",
        "A=(a)\nA[0]+=x\nshow $A",
        "A=([3]=a)\nshow $A",
        "declare -A A\nA[k]=x\nshow $A",
    ],
)
def test_what_only_a_shell_can_know_has_a_reason(script: str) -> None:
    commands = follow(script, ["8"], {"PWD": "/home/ann"}).commands
    [command] = [each for each in commands if each.arguments[0].text == "show"]
    assert [argument.problem is None for argument in command.arguments[1:]] == [False]


CONDITIONS = st.sampled_from(
    ['[ "$A" = 1 ]', "[[ $N -gt 3 ]]", "[ -e / ]", "[ -e /no ]", '[ "$U" = y ]', "! [ $# -eq 2 ]"]
)
STATEMENTS = st.recursive(
    st.sampled_from(
        [
            *("A=1", "A=2 B=x", "B=$A", "A=$((N + 1))", "N=$((N * 2))", "unset B", "A=${B:-d}"),
            *("L=(k=1 j=2)", "L+=(k=$A)", 'L+=("$@")', "shift", "f", "f 7", "return", "break"),
            *("set -- p q", ': "${B:=e}"', 'S="a=1 b=$N"', 'S="$S c=$A"', "continue", "exit 0"),
        ]
    ),
    lambda inner: st.one_of(
        st.tuples(CONDITIONS, inner, inner).map("if {0[0]}; then {0[1]}; else {0[2]}; fi".format),
        st.tuples(CONDITIONS, inner).map("{{ {0[0]} && {0[1]}; }}".format),
        st.tuples(CONDITIONS, inner).map("{{ {0[0]} || {0[1]}; }}".format),
        inner.map("for A in 1 2 $N; do {}; done".format),
        inner.map('for A in "$@"; do {}; done'.format),
        inner.map("for A in $U; do {}; done".format),
        inner.map("while [ $# -gt 0 ]; do {}; shift; done".format),
        st.tuples(inner, inner).map("case $A in 1) {0[0]};; x|2*) {0[1]};; *) A=9;; esac".format),
        st.tuples(inner, inner).map("case $U in 1) {0[0]};; y) {0[1]};; esac".format),
        inner.map("f() {{ local B=5; {}; }}".format),
        inner.map("( {} )".format),
        st.tuples(inner, inner).map("{{ {0[0]}; {0[1]}; }}".format),
    ),
    max_leaves=12,
)
"""Commands that may be decided or not: what ``U`` is, and whether a file exists, is not known."""


@given(st.lists(STATEMENTS, min_size=1, max_size=8), st.sampled_from(["", "1", "y"]))
def test_what_is_known_after_branches_and_loops_is_what_bash_has(
    statements: list[str], unknown: str
) -> None:
    """Also where only a shell can decide: whatever it decides, a word that is known is right."""
    body = "\n".join(statements)
    script = f'A=0 N=3 L=(i=0)\nf() {{ A=$1; }}\n{body}\nend "$A" "$B" "$N" "$#" $S "${{L[@]}}"\n'
    head = "end() { printf '%s\\0' \"$@\"; }\n"
    given_words = ["x=1", "2"]
    bash = subprocess.run(
        ["timeout", "2", "bash", "-c", head + script, "script", *given_words],
        env={"U": unknown},
        capture_output=True,
        check=False,
    )
    assume(bash.returncode != 124)
    words = bash.stdout.decode().split("\0")[:-1]
    ends = [c for c in follow(script, given_words, {}).commands if c.arguments[0].text == "end"]
    if not words or not ends:
        assert not words  # The script ends before, or may end before.
        return
    arguments = ends[0].arguments[1:]
    known = [item.text for item in arguments if item.problem is None]
    assert all(
        item.problem or item.text == word for item, word in zip(arguments[:4], words, strict=False)
    )
    rest = iter(words)
    assert all(word in rest for word in known), (known, words)


def test_nothing_after_an_exit_is_followed() -> None:
    assert follow("[ a ] || exit 1\nshow a\nexit 0\nshow b", (), {}).commands[0].arguments[1:]
    assert words_of("[ a ] || exit 1\nshow a\nexit 0\nshow b") == ["a"]


@pytest.mark.parametrize(
    "script",
    [
        "show ${API_KEY:-hunter2hunter2}",
        "export API_KEY=hunter2hunter2\nexport VLLM_X=hunter2hunter2\nshow a",
        "export VLLM_X=${API_KEY:-hunter2hunter2}\nshow a",
    ],
)
def test_a_secret_is_in_no_word_and_no_export(script: str) -> None:
    followed = follow(script, (), {})
    words = [argument for command in followed.commands for argument in command.arguments]
    shown = [each.text for each in words if each.problem is None]
    values = [each.value for each in followed.exports if each.name != "API_KEY"]
    assert "hunter2" not in " ".join(shown)
    assert not [value for value in values if isinstance(value, str)]
    assert "hunter2hunter2" in followed.secrets


def test_a_short_secret_hides_no_other_words() -> None:
    script = "export OPENAI_API_KEY=a\nshow algorithm.adv_estimator=grpo"
    assert words_of(script) == ["algorithm.adv_estimator=grpo"]
