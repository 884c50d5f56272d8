"""What a shell makes of a script, compared with bash itself."""

from __future__ import annotations

import shlex
import subprocess
from collections.abc import Sequence
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.translate.shell_fields import Unknown
from engine.translate.shell_script import Script, follow
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
        ("show ${A##*/}", "${A##*/} needs a shell"),
        ("show $A", "A is not set in the script"),
        ("source env.sh\nshow $A", "A is not set in the script; env.sh, which line 1 reads, may"),
        ("show $1", "it is argument 1 of the script; give it after the file"),
        ("if [ -z $X ]; then A=1; else A=2; fi\nshow $A", "the 'if' in line 1 decides it"),
        ("for i in 1 2; do\n A=$i\ndone\nshow $A", "the loop 'for' in line 1 decides it"),
        ("case $X in\n a|b) A=1;;\nesac\nshow $A", "the case in line 1 decides it"),
        ("f() {\n A=$1\n}\nshow $A", "the function in line 1 decides it"),
        ("if true; then shift; fi\nshow $1", "the 'if' in line 1 decides it"),
        ("[ -n x ] && A=1\nshow $A", "a condition in line 1 decides it"),
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
        'N=3\n[ "$1" = a ] && { X=1; N=2; }\nshow $N',
        "N=3\n(N=4)\nshow $N",
        "N=3\necho x | N=4\nshow $N",
        "N=3\nN=4 &\nshow $N",
        "N=4\n((N*=2))\nshow $N",
        "N=4\n(( N = 8 ))\nshow $N",
        "N=4\nlet N=8\nshow $N",
        "N=4\nread N <<< 8\nshow $N",
        "N=4\nprintf -v N %d 8\nshow $N",
        'N=4\neval "N=8"\nshow $N',
        "N=1\nrun() { show $N; }\nN=2\nrun",
        "cd $(mktemp -d)\nshow $PWD",
        "shift $(true)\nshow $1",
        "N=1\ncd x && N=3\nshow $N",
        "N=1\nmkdir /x && N=3\nshow $N",
        "N=1\n! true && N=3\nshow $N",
        "N=1\nA=$(false) && N=3\nshow $N",
        "N=1\nshift 9 && N=3\nshow $N",
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
