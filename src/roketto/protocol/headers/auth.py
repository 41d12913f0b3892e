"""Headers of users and rules: those of 5.3 and later, and the access configuration of 4.x."""

from roketto.protocol.headers.base import Header


class CreateUserRequest(Header, kw_only=True):
    """3001: the user is in the body."""

    username: str | None = None


class UpdateUserRequest(Header, kw_only=True):
    """3002: the user is in the body."""

    username: str | None = None


class DeleteUserRequest(Header, kw_only=True):
    """3003."""

    username: str | None = None


class GetUserRequest(Header, kw_only=True):
    """3004."""

    username: str | None = None


class ListUsersRequest(Header, kw_only=True):
    """3005."""

    filter: str | None = None


class CreateAclRequest(Header, kw_only=True):
    """3006: the rules are in the body."""

    subject: str | None = None
    """``User:name``."""


class UpdateAclRequest(Header, kw_only=True):
    """3007: the rules are in the body."""

    subject: str | None = None


class DeleteAclRequest(Header, kw_only=True):
    """3008."""

    subject: str | None = None
    policy_type: str | None = None
    resource: str | None = None


class GetAclRequest(Header, kw_only=True):
    """3009."""

    subject: str | None = None


class ListAclsRequest(Header, kw_only=True):
    """3010."""

    subject_filter: str | None = None
    resource_filter: str | None = None


class CreateAccessConfigRequest(Header, kw_only=True):
    """50 (4.x): lists are ``name=permission`` joined by commas."""

    access_key: str
    secret_key: str | None = None
    white_remote_address: str | None = None
    admin: bool = False
    default_topic_perm: str | None = None
    default_group_perm: str | None = None
    topic_perms: str | None = None
    group_perms: str | None = None

    def __repr__(self) -> str:
        return f"CreateAccessConfigRequest(access_key={self.access_key!r}, ...)"


class DeleteAccessConfigRequest(Header, kw_only=True):
    """51 (4.x)."""

    access_key: str


class GetBrokerAclConfigResponse(Header, kw_only=True):
    """52 (4.x)."""

    version: str
    all_acl_file_version: str | None = None
    broker_name: str
    broker_addr: str
    cluster_name: str


class UpdateGlobalWhiteAddrsConfigRequest(Header, kw_only=True):
    """53 (4.x)."""

    global_white_addrs: str
    """Joined by commas."""
    acl_file_full_path: str | None = None
    """Which file of the broker; tools send it only when told to."""
