"""Users and access rules: ACL 2.0 of 5.3 and above, and the plain files of ACL 1.0."""

from roketto.protocol.bodies.base import Body
from roketto.protocol.bodies.topics import DataVersion

__all__ = [
    "AclConfig",
    "AclInfo",
    "ClusterAclVersionInfo",
    "PlainAccessConfig",
    "PolicyEntryInfo",
    "PolicyInfo",
    "UserInfo",
]


class UserInfo(Body):
    """A user; the password travels in clear text, so it is not part of the representation."""

    password: str | None = None
    user_status: str | None = None
    user_type: str | None = None
    username: str | None = None

    def __repr__(self) -> str:
        return f"UserInfo({self.username!r}, {self.user_type!r}, {self.user_status!r})"


class PolicyEntryInfo(Body):
    """Who may do what with one resource, and from where."""

    actions: list[str] | None = None
    decision: str | None = None
    resource: str | None = None
    source_ips: list[str] | None = None


class PolicyInfo(Body):
    """The entries of one kind of policy: ``Custom`` or ``Default``."""

    entries: list[PolicyEntryInfo] | None = None
    policy_type: str | None = None


class AclInfo(Body):
    """All that one subject may do."""

    policies: list[PolicyInfo] | None = None
    subject: str | None = None


class PlainAccessConfig(Body):
    """An account of ACL 1.0; its secret is not part of the representation."""

    access_key: str | None = None
    admin: bool = False
    default_group_perm: str | None = None
    default_topic_perm: str | None = None
    group_perms: list[str] | None = None
    secret_key: str | None = None
    topic_perms: list[str] | None = None
    white_remote_address: str | None = None

    def __repr__(self) -> str:
        return f"PlainAccessConfig({self.access_key!r}, admin={self.admin})"


class AclConfig(Body):
    """The answer to GET_BROKER_CLUSTER_ACL_CONFIG."""

    global_white_addrs: list[str] | None = None
    plain_access_configs: list[PlainAccessConfig] | None = None


class ClusterAclVersionInfo(Body):
    """The versions of the access files of one broker, all together and by file name."""

    acl_config_data_version: DataVersion | None = None
    all_acl_config_data_version: dict[str, DataVersion] | None = None
    broker_addr: str | None = None
    broker_name: str | None = None
    cluster_name: str | None = None
