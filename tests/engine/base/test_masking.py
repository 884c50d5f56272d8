"""Secrets are found by value and by shape; everything else stays readable."""

from __future__ import annotations

import base64
import hashlib
import json
import time
from collections.abc import Mapping
from urllib.parse import quote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.base.masking import mask, mask_data, mask_lines, mask_text

# Made up, and put together here: a scanner of this repository should find none.
BODY = "Q7w8E9r0T1y2U3i4O5p6A7s8"
SHAPES = {
    "openai": "sk-" + BODY,
    "openai project": "sk-proj-" + BODY + "_-" + BODY,
    "anthropic": "sk-ant-api03-" + BODY,
    "github": "ghp_" + BODY,
    "github app": "ghs_" + BODY,
    "github fine": "github_pat_" + BODY + "_" + BODY,
    "hugging face": "hf_" + BODY,
    "slack": "xoxb-" + BODY,
    "slack user": "xoxp-1234-" + BODY,
    "google": "AIza" + BODY + "abcdefghijk",
    "gitlab": "glpat-" + BODY,
    "nvidia": "nvapi-" + BODY,
    "groq": "gsk_" + BODY,
    "aws": "AKIA" + "ABCDEFGH12345678",
    "docker": "dckr_pat_" + BODY,
    "databricks": "dapi" + "0123456789abcdef" * 2,
    "vault": "hvs." + BODY,
    "atlassian": "ATATT" + BODY,
    "supabase": "sbp_" + "0123456789abcdef" * 2,
    "jwt": "eyJ" + BODY + ".eyJ" + BODY + "." + BODY,
}
IN_CONTEXT = {
    "raw header": ("(b'authorization', b'Bearer {}')", "opaque-value-1"),
    "pair": ("[('Authorization', 'Bearer {}')]", "opaque-value-1"),
    "words of a command": ("['vllm', 'serve', '--api-key', '{}']", "opaque-value-1"),
    "underscored flag": ("serve --api_key {}", "opaque-value-1"),
    "a blank in quotes": ('{{"api_key": "{}"}}', "opaque value 1"),
    "a numbered name": ("OPENAI_API_KEY_2={}", "opaque-value-1"),
    "a password of digits": ("MYSQL_PASSWORD={}", "1234567"),
    "the webhook of a variable": ("SLACK_WEBHOOK={}", "opaque-value-1"),
    "camel case": ('{{"SecretAccessKey": "{}"}}', "opaque/value+1"),
    "json in json": ('{{\\"api_key\\": \\"{}\\"}}', "opaque-value-1"),
    "toml": ('token = "{}"', "opaque-value-1"),
    "pgp": (
        "-----BEGIN PGP PRIVATE KEY BLOCK-----\n{}\n-----END PGP PRIVATE KEY BLOCK-----",
        "lQOYBGK",
    ),
    "bearer": ("Authorization: Bearer {}", BODY),
    "bearer alone": ("bearer {} was refused", BODY),
    "basic": ("authorization: Basic {}", base64.b64encode(b"user:pass word").decode()),
    "login in a URL": ("cannot reach postgres://{}@db.example.org/x", "u:S3cretPw"),
    "login in a URL as a path": ("there is no postgres:/{}@db.example.org/x", "u:S3cretPw"),
    "password with an at": ("redis://{}@db:6379", ":p@ss"),
    "query": ("GET https://h/v1?model=m&api_key={}&x=1", "abcd1234"),
    "sas": ("https://a.blob.core.windows.net/c?sv=1&sig={}", "abc%2Bdef%3D"),
    "wandb setting": ("WANDB_API_KEY={}", "0123456789abcdef" * 2 + "01234567"),
    "wandb login": ("$ wandb login {}", "0123456789abcdef" * 2 + "01234567"),
    "any variable": ("export MY_OWN_TOKEN='{}'", "opaque-value-1"),
    "json": ('{{"api_key": "{}"}}', "opaque-value-1"),
    "python": ("client(password='{}')", "hunter2"),
    "azure": ("AccountKey={};EndpointSuffix=core", BODY + "=="),
    "flag": ("curl --token {} https://h", "opaque-value-1"),
    "header argument": ("[curl, -H, 'X-API-Key: {}']", "opaque-value-1"),
    "slack hook": ("https://hooks.slack.com/{}", "services/T0/B0/abc"),
    "an escape before it": ("read:\\napi_key={}\\n", "opaque-value-1"),
    "a letter of another alphabet before it": ("密钥MY_API_KEY={}", "opaque-value-1"),
    "quotes in quotes": ("- ''password'': ''{}''", "opaque-value-1"),
    "punctuation in quotes": ('password: "{}"', "aB3&(x)yz;w"),
    "wandb call": ("wandb.login(key='{}')", "0123456789abcdef" * 2 + "01234567"),
    "pem": ("-----BEGIN PRIVATE KEY-----\n{}\n-----END PRIVATE KEY-----", "MIIEvQ\nabc="),
}


@pytest.mark.parametrize("secret", SHAPES.values(), ids=SHAPES.keys())
@pytest.mark.parametrize(
    "around", ["{}", "x '{}' y", "key: {}.", "({})", '"{}",', "a\\n{}", "%22{}"]
)
def test_a_key_in_a_known_shape_is_masked(secret: str, around: str) -> None:
    masked = mask_text(around.format(secret), env={})
    assert secret not in masked
    assert masked.count(secret[-8:]) == 0


@pytest.mark.parametrize(("around", "secret"), IN_CONTEXT.values(), ids=IN_CONTEXT.keys())
def test_values_in_the_position_of_secrets_are_masked(around: str, secret: str) -> None:
    text = around.format(secret)
    masked = mask_text(text, env={})
    assert secret not in masked
    assert masked.split("…")[0] and text.startswith(masked.split("…")[0])


@pytest.mark.parametrize(
    "text",
    [
        f"commit {hashlib.sha1(b'x').hexdigest()} of {hashlib.sha256(b'x').hexdigest()}",
        "run grpo_tiny-20260102-030405 resumes grpo_tiny-20260101-000000",
        "fingerprint sha256:" + hashlib.sha256(b"x").hexdigest(),
        "eos_token='<|im_end|>' eos_token_id=151645 pad_token=None total_num_tokens:336",
        "data.prompt_key=prompt data.reward_fn_key=data_source max_tokens: 4096",
        "KeyError: 'OPENAI_API_KEY'",
        "set OPENAI_API_KEY=... or write OPENAI_API_KEY=<key> into .env",
        "judge.api_key_env: OPENAI_API_KEY, WANDB_API_KEY is not set",
        "throughput 1234 tokens/s, key: value, task-distribution-and-more-words-here",
        "https://example.org:8000/v1?model=m and s3://bucket/key",
        "Basic configuration of the bearer authentication",
        "KeyError: keys ['input_ids', 'attention_mask'] not found",
        "actor/pg_loss:-7.450580596923828e-08 - training/global_step:10",
        "the password is required; passwords: none",
        'rollout_corr/chi2_token:-5.960464477539063e-08 - "x_token":1.1920928955078125e-7,',
        "RPC error: InvalidAuthToken: Authentication token is missing or incorrect",
        "RAY_AUTH_TOKEN_PATH=/shared/team/ray-token",
        "sk-learn-version-1-2-3",
        "sk-learn-is-a-name-of-words in Qwen2VLForConditionalGenerationWithLoRA",
        "frame _ZN5at6native12_GLOBAL__N_119gpu_kernel_implIZZZNS0_23direct in libtorch.so",
        "Request id: req_011CSHoEeqs5C35K2UUGfdi7 chatcmpl-AbC3dEf5GhI7jKl9MnO1pQr",
        "docker run -u 1000:1000 image; git clone ssh://git@github.com/user/repo",
        "https://host/x?code=404&session=1",
        "PRIMARY_KEY=question_id FOREIGN_KEY: run_identifier CACHE_KEY='prompt_hash'",
        "mkdir -p /data/out; docker run -p 8080:80 x; ssh -p 2222 host; mysql -h db -p name",
        "http://host:8080/v1/model@latest and s3://bucket/key:v@1 and mail me@example.org",
        "pytest -p no:cacheprovider --bypass everything login -p 8000",
        "123e4567-e89b-12d3-a456-426614174000 in triton_poi_fused__to_copy_0d1d2d3de",
        "\x1b[36m(TaskRunner pid=4709)\x1b[0m step:1 - reward/mean:0.5",
    ],
)
def test_text_that_only_resembles_a_secret_stays(text: str) -> None:
    assert mask_text(text, env={}) == text


@pytest.mark.parametrize("placeholder", ["x", "-", "xy"])
def test_a_key_that_is_a_placeholder_hides_only_itself(placeholder: str) -> None:
    assert mask_text("Connection error.", placeholder) == "Connection error."


def test_masking_twice_is_masking_once() -> None:
    texts = [*SHAPES.values(), *(around.format(secret) for around, secret in IN_CONTEXT.values())]
    once = mask_text(" \n".join(texts), env={})
    assert mask_text(once, env={}) == once


def known_forms(value: str) -> Mapping[str, str]:
    return {
        "plain": value,
        "in a word": f"x{value}y",
        "url": quote(value, safe=""),
        "json": json.dumps({"a": value}),
        "base64": base64.b64encode(value.encode()).decode(),
        "base64 for urls": base64.urlsafe_b64encode(value.encode()).decode(),
    }


@pytest.mark.parametrize(
    "value", ["correct horse 9 äß", "opaque-value-1", "a+b/c==d1", "pw<&1>abc"]
)
@pytest.mark.parametrize("form", list(known_forms("12345678")))
def test_a_value_that_a_variable_holds_is_masked_in_every_form(value: str, form: str) -> None:
    text = known_forms(value)[form]
    if text == value and form != "plain":
        pytest.skip("the same as plain")
    masked = mask_text(f"before {text} after", env={"MY_SECRET": value})
    assert text not in masked and value not in masked
    assert masked.startswith("before ") and masked.endswith(" after")
    assert len(masked) < len(f"before {text} after") and "…" in masked


@pytest.mark.parametrize(
    "name",
    [
        "HF_TOKEN",
        "MY_APIKEY",
        "db_password",
        "PGPASSWORD",
        "AWS_SECRET",
        "X_CREDENTIALS",
        "MYSQL_PWD",
        "JUDGE_KEY",
        "HF_TOKEN_READ",
        "OPENAI_API_KEY_2",
    ],
)
def test_the_name_of_a_variable_says_that_it_is_secret(name: str) -> None:
    assert "opaque-value" not in mask_text("it says opaque-value", env={name: "opaque-value"})


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("TOKENIZERS_PARALLELISM", "true"),
        ("MAX_TOKENS", "40960000"),
        ("PWD", "/home/me/project"),
        ("RAY_AUTH_TOKEN_PATH", "ray-token-file"),
        ("SSH_KEYS_DIR", "/home/me/.ssh"),
        ("TOKEN_KIND", "bearer"),
        ("EDITOR", "some-editor"),
        ("PRIMARY_KEY", "question_id"),
        ("STOP_TOKEN_IDS", "[151645, 151643]"),
        ("pad_token", "<|endoftext|>"),
        ("loss_token_level", "sequence-mean"),
        ("WANDB_API_KEY", "REPLACE_THIS"),
        ("HF_TOKEN", "your-hf-token-here"),
    ],
)
def test_flags_numbers_paths_and_common_words_are_not_secrets(name: str, value: str) -> None:
    assert mask_text(f"it says {value} here", env={name: value}) == f"it says {value} here"


def test_the_password_in_the_url_of_any_variable_is_known() -> None:
    env = {"DATABASE_URL": "postgres://me:S3cretPw@db/x"}
    assert mask_text("FATAL: S3cretPw is wrong", env=env) == "FATAL: … is wrong"
    env = {"DATABASE_URL": "postgres://me:a%40b%2Fc1@db/x", "OTHER_URL": "redis://:p@sword@db"}
    assert mask_text("a@b/c1, p@sword", env=env) == "…, …"


def test_a_mask_shows_four_characters_of_a_long_secret_and_none_of_a_short_one() -> None:
    assert mask("sk-proj-0123456789") == "…6789"
    assert mask("0123456789abcde") == "…"


def test_texts_in_data_are_masked_and_numbers_stay() -> None:
    data = {"a": [SHAPES["hugging face"], 1.5, None], "b": {"c": True}}
    assert mask_data(data) == {"a": ["…A7s8", 1.5, None], "b": {"c": True}}


@given(st.text(max_size=200))
def test_text_without_secrets_is_never_lengthened_and_never_an_error(text: str) -> None:
    assert len(mask_text(text, env={})) <= len(text)


def test_many_lines_are_masked_as_each_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MY_SECRET", "opaque-value-1")
    lines = [around.format(secret) for around, secret in IN_CONTEXT.values()]
    lines += [*SHAPES.values(), "it says opaque-value-1", "step:3 - loss:0.25", "", "my password:"]
    each = [mask_text(line) for line in lines]
    assert mask_lines(lines) == each and mask_data({"all": lines}) == {"all": each}


@pytest.mark.parametrize("secret", [*SHAPES.values(), "opaque-value-1", "opaque-\x1b[0mvalue-1"])
def test_the_only_secret_of_many_lines_is_masked(
    monkeypatch: pytest.MonkeyPatch, secret: str
) -> None:
    monkeypatch.setenv("MY_SECRET", "opaque-value-1")
    _are_masked_as_alone(
        ["step:3 - loss:0.25", f"x {secret} y", "grpo_tiny-20261122-171332  60/60"]
    )


def test_a_secret_in_a_very_long_text_is_masked() -> None:
    words = " ".join(f"word-{number}" for number in range(10_000))
    assert "hf_" not in mask_lines([words, f"token {SHAPES['hugging face']}"])[1]


@pytest.mark.parametrize("context", IN_CONTEXT)
def test_a_secret_known_only_by_its_context_is_masked(context: str) -> None:
    around, secret = IN_CONTEXT[context]
    _are_masked_as_alone(["step:3 - loss:0.25", *around.format(secret).splitlines(), "finished"])


def _are_masked_as_alone(lines: list[str]) -> None:
    each = [mask_text(line) for line in lines]
    assert mask_lines(lines) == each and mask_data([{"all": lines}]) == [{"all": each}]


_REPEATED = (
    *("a_b_", "-", "--a", "-eyJa", "-eyJaaaaaaaa.", "key ", "key=' ", "A_"),
    *("basic ", "://a@", "-----BEGIN PRIVATE KEY-----", "password 'a", "wandb  ", 'key"]  '),
    *("\\", "\x1b[", "\\n", "basic\\n", "AKIA"),
)


@pytest.mark.parametrize("part", _REPEATED)
def test_a_long_line_takes_time_in_proportion_to_its_length(part: str) -> None:
    hints = "token key secret basic bearer -u --x :// private key login"
    spent = time.process_time()
    mask_text(f"{hints} {part * (100_000 // len(part))}", env={"MY_SECRET": "opaque-value-1"})
    # At most 0.2 s of CPU; seconds to hours where the time grows with the square of the length.
    assert time.process_time() - spent < 2.5


@pytest.mark.parametrize("known", [False, True])
@pytest.mark.parametrize(
    "unseen", ["\x1b[1m", "\x1b[38;2;255;100;20;48;5;7m", "\x1b[38:2::1:2:3m"], ids=ascii
)
def test_a_color_hides_no_secret(unseen: str, known: bool) -> None:
    secret = "opaque-value-of-a-service1" if known else SHAPES["openai project"]
    divided = f"login {secret[:5]}{unseen}{secret[5:20]}{unseen}{secret[20:]} failed\n"
    masked = mask_text(f"step 1{unseen}\n{divided}", env={"MY_SECRET": secret} if known else {})
    assert masked == f"step 1{unseen}\nlogin …{secret[-4:]} failed\n"
    assert mask_lines(["step 1", divided])[1] == masked.split("\n")[1] + "\n" or known


def test_styles_stay_in_lines_without_a_secret() -> None:
    fine = "\x1b[36mstep 1\x1b[0m\n"
    text = f"{fine}\x1b[31mAuthorization\x1b[0m: Bearer \x1b[1mopaque-value\x1b[0m\n"
    assert mask_text(text, env={}) == f"{fine}Authorization: Bearer …\n"


def test_a_field_with_a_secret_name_is_masked() -> None:
    data = {"api_key": "opaque-value-1", "HF_TOKEN": "${oc.env:HF_TOKEN}", "key": "judge.base_url"}
    assert mask_data(data) == {**data, "api_key": "…"}


@pytest.mark.parametrize(
    "data",
    [
        {"argv": ["serve", "--api-key", "opaque-value-1"]},
        {"config": {"db": {"password": "opaque-value-1"}}},
    ],
)
def test_a_name_around_or_before_a_text_marks_it_as_secret(data: dict[str, object]) -> None:
    assert mask_data(data) == json.loads(json.dumps(data).replace("opaque-value-1", "…"))


def test_names_of_fields_are_masked_and_stay_different() -> None:
    metrics = {"val/https://me:pw1pw1@h/a": 0.25, "val/https://me:pw2pw2@h/a": 0.5, "reward": 1.0}
    masked = {"val/https://…@h/a": 0.25, "val/https://…@h/a (2)": 0.5, "reward": 1.0}
    assert mask_data({"metrics": metrics}) == {"metrics": masked}
