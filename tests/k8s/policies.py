"""What must hold of the manifests: all policies."""

from policy import POLICIES  # noqa: F401
import policies_flags  # noqa: F401
import policies_network  # noqa: F401
import policies_pods  # noqa: F401
from policies_services import adapter_rules  # noqa: F401
import policies_services  # noqa: F401
import policies_tls  # noqa: F401
