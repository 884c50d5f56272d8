"""Messages as libraries word them, with made-up values: each is sorted into its class."""

from __future__ import annotations

import pytest

from tests.engine.doctor.text.reading import HEADER, frames, read

CLIENTS = {
    "judge_auth": """
        anthropic.AuthenticationError: Error code: 401 - {'error': {'type': 'authentication_error'}}
        google.api_core.exceptions.InvalidArgument: 400 API key not valid. Please pass a valid key.
        google.auth.exceptions.DefaultCredentialsError: Your default credentials were not found.
        botocore.exceptions.NoCredentialsError: Unable to locate credentials
        requests.exceptions.HTTPError: 402 Client Error: Payment Required for url: https://a.b/v1
        httpx.HTTPStatusError: Client error '401 Unauthorized' for url 'https://a.b/v1/chat'
        openai.NotFoundError: Error code: 404 - {'error': {'message': 'Resource not found'}}
        KeyError: 'OPENAI_API_KEY'
    """,
    "judge_rate_limit": """
        google.api_core.exceptions.ResourceExhausted: 429 Resource has been exhausted
        google.genai.errors.ClientError: 429 RESOURCE_EXHAUSTED. {'error': {'code': 429}}
        cohere.errors.too_many_requests_error.TooManyRequestsError: status_code: 429
        requests.exceptions.HTTPError: 429 Client Error: Too Many Requests for url: https://a.b/v1
        tenacity.RetryError: RetryError[<Future at 0x7 state=finished raised RateLimitError>]
    """,
    "judge_timeout_or_connection": """
        google.api_core.exceptions.DeadlineExceeded: 504 Deadline Exceeded
        google.genai.errors.ServerError: 503 UNAVAILABLE. {'error': {'message': 'overloaded'}}
        anthropic.InternalServerError: Error code: 529 - {'error': {'type': 'overloaded_error'}}
        requests.exceptions.HTTPError: 502 Server Error: Bad Gateway for url: https://a.b/v1
        httpx.HTTPStatusError: Server error '503 Service Unavailable' for url 'http://a.b/v1'
        urllib.error.HTTPError: HTTP Error 503: Service Unavailable
        urllib.error.URLError: <urlopen error [Errno 111] Connection refused>
        botocore.exceptions.EndpointConnectionError: Could not connect to the endpoint URL: "x"
        http.client.RemoteDisconnected: Remote end closed connection without response
        grpc._channel._InactiveRpcError: <_InactiveRpcError of RPC that terminated with:
        openai.error.APIError: Bad gateway. {"error":{"code":502}}
        asyncio.exceptions.TimeoutError
    """,
    "judge_content_filter": """
        anthropic.BadRequestError: Error code: 400 - 'Output blocked by content filtering policy'
        google.generativeai.types.generation_types.StopCandidateException: finish_reason: SAFETY
        openai.ContentFilterFinishReasonError: the request was rejected by the content filter
    """,
    "judge_parse_failure": """
        openai.LengthFinishReasonError: Could not parse response content
        langchain_core.exceptions.OutputParserException: Invalid json output: Sure!
        pydantic_core._pydantic_core.ValidationError: 1 validation error for JudgeVerdict
    """,
}
MACHINES = {
    "checkpoint_disk_full": """
        RuntimeError: write(): fd 7 failed with Input/output error
        OSError: 6291456 requested and 0 written
    """,
    "checkpoint_corrupt_or_mismatch": """
        Exception: Cannot load parameters; please ensure that the architectures match.
        ValueError: Requested shape: (8, 4) is not compatible with the stored shape: (4, 4).
        KeyError: 'model_state_dict'
        KeyError: 'model.layers.0.mlp.experts.w13_weight_scale'
        AssertionError: No checkpoint found in /ckpt/last
        FileNotFoundError: No structure could be identified for the checkpoint at /ckpt/3.
        deepspeed.runtime.zero.utils.ZeRORuntimeException: The checkpoint being loaded used a size
    """,
    "driver_toolkit_mismatch": """
        subprocess.CalledProcessError: Command '['ninja', '-v']' returned non-zero exit status 1.
        RuntimeError: Ninja build failed. Ninja output:
        FileNotFoundError: [Errno 2] No such file or directory: '/usr/local/cuda/bin/nvcc'
        RuntimeError: Failed to find C compiler. Please specify via CC environment variable.
        RuntimeError: PassManager::run failed
        RuntimeError: CUDA unknown error - this may be due to an incorrectly set up environment
        RuntimeError: Internal Triton PTX codegen error
        ImportError: /v/lib/python3.11/site-packages/fused_ops.so: undefined symbol:
    """,
    "dtype_or_attention_error": """
        NotImplementedError: this kernel was built for a head size of 64 and 128, not 80
        RuntimeError: Tensors must have same dtype: got BFloat16 and Float
        RuntimeError: cu_seqlens_q must have shape (batch_size + 1)
    """,
    "lora_adapter_error": """
        NotImplementedError: LoRA on layers of type Conv3d
        RuntimeError: the base of this peft model has other layers
    """,
    "training_setup_error": """
        AttributeError: 'DistributedDataParallel' object has no attribute 'generate'
    """,
    "cuda_oom_training": """
        RuntimeError: cuda runtime error (2) : out of memory at /a/b/THCStorage.cu:5
        tensorflow.errors_impl.ResourceExhaustedError: OOM when allocating tensor with shape[8,8]
        XlaRuntimeError: RESOURCE_EXHAUSTED: Ran out of memory in memory space hbm. Used 9G of 8G
        RuntimeError: Allocation on device 3 would exceed allowed memory. (out of memory)
        jaxlib.xla_extension.XlaRuntimeError: RESOURCE_EXHAUSTED: Out of memory while trying
        ValueError: Make sure you have enough GPU RAM to fit the quantized model.
    """,
    "cuda_device_assert": """
        RuntimeError: cuDNN error: CUDNN_STATUS_EXECUTION_FAILED
    """,
    "host_oom": """
        MachineError: Job has gone over memory limit of 40 megabytes. Peak usage: 51 megabytes.
        torch.multiprocessing.spawn.ProcessExitedException: process 3 terminated with signal SIGKILL
    """,
    "ray_start_or_worker_died": """
        ray.exceptions.RayletError: The Raylet died with this message: unknown
        IOError: [RayletClient] Unable to register worker with raylet. No such file
        TimeoutError: Timed out while waiting for GCS to become available.
    """,
    "nccl_timeout_or_error": """
        horovod.common.exceptions.HorovodInternalError: ncclAllReduce failed
        torch.distributed.elastic.rendezvous.api.RendezvousClosedError
        RuntimeError: Rank 3 successfully reached monitoredBarrier, but received errors
    """,
    "vllm_init_failure": """
        ConnectionError: The vLLM server can't be reached at http://0.0.0.0:8000 after 60 seconds
        RuntimeError: Rank 0 scheduler died during initialization (exit code: 1).
    """,
}
SETTINGS = {
    "config_error": """
        FileExistsError: Folder /x/y already exists. Use --overwrite or --resume to go on.
        KeyError: 'FooSet is not in the dataset registry. Is the name right?'
        ValueError: The global train batch size (2 x 4) must be evenly divisible by 6.
        RuntimeError: Mesh should not be bigger than default world size 4, but found 8
        KeyError: 'LOCAL_RANK'
        ValueError: GRPO requires at least 2 generations per prompt.
    """,
    "context_length_exceeded": """
        AssertionError: model context length should be greater than total sequence length
        google.api_core.exceptions.InvalidArgument: 400 The input token count (12) exceeds the limit
    """,
    "data_missing_or_schema": """
        ValueError: Unknown split "validation". Should be one of ['train'].
        ValueError: no samples found in dataset; perhaps you have fewer shards than workers
    """,
    "tokenizer_or_chat_template": """
        AttributeError: 'NoneType' object has no attribute 'pad_token_id'
        OverflowError: can't convert negative int to unsigned
    """,
    "job_cancelled_or_interrupted": """
        modal.exception.FunctionTimeoutError: the task hit its timeout of 60s
        asyncio.exceptions.CancelledError
    """,
}
ALL = {**CLIENTS, **MACHINES, **SETTINGS}


@pytest.mark.parametrize(
    ("category", "said"),
    [
        (category, line.strip())
        for category, text in ALL.items()
        for line in text.strip().splitlines()
    ],
)
def test_a_message_that_ends_a_traceback_is_sorted(category: str, said: str) -> None:
    result = read(HEADER, frames("/w/mine/train.py:main"), f"{said}\n")
    assert [one.category for one in result][:1] == [category]


@pytest.mark.parametrize(
    ("category", "said"),
    [
        (
            "ray_start_or_worker_died",
            "(raylet) [2025-01-01 00:00:00,000 E 1 1] (raylet) worker_pool.cc:5: Some workers of"
            " the worker process(7) have not registered within the timeout.",
        ),
        (
            "job_cancelled_or_interrupted",
            "W0101 00:00:00.1 1 torch/distributed/elastic/agent/server/api.py:7] Received"
            " Signals.SIGINT death signal, shutting down workers",
        ),
        (
            "ray_start_or_worker_died",
            "2019-01-01 00:00:00,000 ERROR worker.py:17 -- The node with client ID 12 has been"
            " marked dead because the monitor has missed too many heartbeats from it.",
        ),
        (
            "ray_start_or_worker_died",
            "[2022-01-01 00:00:00,907 C 9 9] node_manager.cc:1: This node has been marked as dead.",
        ),
        (
            "cuda_oom_rollout",
            "thread 'main' panicked at 'Unable to warmup model: Generation(\"x\")'",
        ),
        (
            "ray_start_or_worker_died",
            "2020-01-01 00:00:00,000 ERROR scripts.py:4 -- Ray processes died unexpectedly:",
        ),
        (
            "job_cancelled_or_interrupted",
            "W0101 00:00:00.1 1 torch/distributed/elastic/multiprocessing/api.py:8] Sending process"
            " 41 closing signal SIGHUP",
        ),
        (
            "reward_function_error",
            "ERROR: cannot connect to the reward server at http://node1:7000",
        ),
        ("reward_function_error", "ERROR: exception in verifier for sample 3: invalid syntax"),
        ("nccl_timeout_or_error", "n1:7:9 [3] bootstrap.cc:7 NCCL WARN Message truncated : 1024"),
        ("nccl_timeout_or_error", "n1:7:9 [0] NCCL WARN Bootstrap : no socket interface found"),
        ("cuda_oom_rollout", "[TM][ERROR] CUDA runtime error: out of memory /x/memory_utils.cu:3"),
        ("host_oom", "terminate called after throwing an instance of 'std::bad_alloc'"),
        ("vllm_init_failure", "Error: ShardCannotStart"),
        ("loss_nan", "Batch 12: Invalid loss, terminating training"),
        ("job_cancelled_or_interrupted", "CondaError: KeyboardInterrupt"),
        ("job_cancelled_or_interrupted", "ERROR: job 7 was preempted by a more urgent job"),
        ("job_cancelled_or_interrupted", "Terminated"),
        ("job_cancelled_or_interrupted", "^C"),
        ("wandb_auth", "wandb: ERROR Error while calling W&B API: no (<Response [403]>)"),
        ("wandb_network", "wandb: ERROR Error while calling W&B API: no (<Response [500]>)"),
        (
            "wandb_teardown_or_crash",
            "wandb: ERROR Error while calling W&B API: no (<Response [409]>)",
        ),
        ("judge_content_filter", "{'error': {'code': 'content_filter', 'status': 400}}"),
        ("judge_content_filter", "Candidate(finish_reason=<FinishReason.SAFETY: 3>, text=None)"),
        ("judge_content_filter", "Message(content=[], stop_reason='refusal')"),
        ("driver_toolkit_mismatch", "nvcc fatal   : Unsupported gpu architecture 'compute_1'"),
        ("python_env_import", "/usr/bin/python: No module named torch.distributed.run"),
    ],
)
def test_what_launchers_and_daemons_say_is_sorted(category: str, said: str) -> None:
    assert [finding.category for finding in read(f"{said}\n")] == [category]
