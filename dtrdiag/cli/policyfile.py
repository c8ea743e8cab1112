"""Policy files as verbs use them; what they are is defined where workers need it too."""

from dtrdiag.experiments.policyfile import (
    forget_policy_files,
    load_policy_file,
    policy_file_sha256,
)

__all__ = ["forget_policy_files", "load_policy_file", "policy_file_sha256"]
