"""What S3 and boto3 refuse, as errors of a store. Used by `s3`.

Of boto3's own texts only codes and what a server said are passed on: an endpoint may have a
password in it.
"""

import errno
import os

from botocore.exceptions import (
    BotoCoreError,
    ClientError,
    CredentialRetrievalError,
    HTTPClientError,
    NoCredentialsError,
    ParamValidationError,
    PartialCredentialsError,
    ProfileNotFound,
)
from botocore.exceptions import ConnectionError as NoConnection

from holdfast.checkpoint.stores import (
    NotStored,
    PermanentStoreError,
    StoreError,
    TemporaryStoreError,
)

_KEYS = "Give the nodes keys that may use it: AWS_ACCESS_KEY_ID, ~/.aws or a role."
_NO_KEYS = (NoCredentialsError, PartialCredentialsError, CredentialRetrievalError, ProfileNotFound)
_DENIED = (
    "AccessDenied AllAccessDisabled AccountProblem InvalidAccessKeyId SignatureDoesNotMatch "
    "ExpiredToken InvalidToken 401 403"
)
_REGION = "Set AWS_DEFAULT_REGION to the bucket's."
_ADVICE = dict.fromkeys(_DENIED.split(), _KEYS) | {
    "NoSuchBucket": "Make the bucket, or give the job another storeUrl.",
    "InvalidBucketName": "Give the job another storeUrl.",
    "PermanentRedirect": _REGION,
    "AuthorizationHeaderMalformed": _REGION,
}
"""By the code of the answer: what will fail again until somebody does this."""
_FULL = {
    "QuotaExceeded": errno.EDQUOT,
    "InsufficientCapacity": errno.ENOSPC,
    "XMinioStorageFull": errno.ENOSPC,
    "507": errno.ENOSPC,
}
"""In the words of an operating system, by which a full store is known elsewhere, too."""


def code_of(error: ClientError) -> str:
    """The server's word for what is wrong; its HTTP status where it had none."""
    return str(error.response.get("Error", {}).get("Code", ""))


def told(error: BotoCoreError | ClientError, what: str, where: str) -> StoreError:
    """`what`: "write", say; `where`: the object's URL."""
    failed = f"store: cannot {what} {where}"
    if isinstance(error, ClientError):
        return _answered(error, failed, where)
    if isinstance(error, _NO_KEYS):
        return PermanentStoreError(f"{failed}: there are no keys for it. {_KEYS}")
    if isinstance(error, ParamValidationError):
        return PermanentStoreError(f"{failed}: that is no name there. Give another storeUrl.")
    name = type(error).__name__
    if isinstance(error, NoConnection | HTTPClientError):
        return TemporaryStoreError(
            f"{failed}: the server does not answer ({name}). See AWS_ENDPOINT_URL. It is "
            "tried again."
        )
    return TemporaryStoreError(f"{failed}: {name}. It is tried again.")


def _answered(error: ClientError, failed: str, where: str) -> StoreError:
    code = code_of(error)
    said = str(error.response.get("Error", {}).get("Message", "")).rstrip(".")
    if code in ("NoSuchKey", "404"):
        return NotStored(f"store: {where} is not there")
    if code in _FULL:
        why = os.strerror(_FULL[code])
        return TemporaryStoreError(
            f"{failed}: {why} ({code}). Free space there, or give the job another storeUrl."
        )
    if code in _ADVICE:
        return PermanentStoreError(f"{failed}: {code}: {said}. {_ADVICE[code]}")
    return TemporaryStoreError(f"{failed}: {code}: {said}. It is tried again.")
