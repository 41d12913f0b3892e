"""Namespaces: a prefix that keeps the topics and groups of several tenants apart.

::

    topic            <->  ns%topic
    %RETRY%group     <->  %RETRY%ns%group
    %DLQ%group       <->  %DLQ%ns%group

Names of the system have none. Clients add the prefix on the way out and take it off on the way
in; brokers see only whole names.
"""

from roketto.protocol.names import (
    DLQ_PREFIX,
    NAMESPACE_SEPARATOR,
    RETRY_PREFIX,
    is_system_group,
    is_system_topic,
)


def wrap_namespace(namespace: str, name: str) -> str:
    """``name`` with the namespace, unless it has it already or belongs to the system."""
    if not namespace or not name or _is_system(name) or has_namespace(namespace, name):
        return name
    prefix, rest = _split_prefix(name)
    return prefix + namespace + NAMESPACE_SEPARATOR + rest


def unwrap_namespace(namespace: str, name: str) -> str:
    """``name`` without ``namespace``; a name of another namespace stays as it is."""
    if not namespace or not _split_prefix(name)[1].startswith(namespace + NAMESPACE_SEPARATOR):
        return name
    return unwrap_any_namespace(name)


def unwrap_any_namespace(name: str) -> str:
    """``name`` without whatever namespace it has."""
    if _is_system(name):
        return name
    prefix, rest = _split_prefix(name)
    namespace, _, inner = rest.partition(NAMESPACE_SEPARATOR)
    # Without a separator the namespace would be the whole name; before a leading one it is empty.
    return prefix + inner if 0 < len(namespace) < len(rest) else name


def namespace_of(name: str) -> str:
    """The namespace of ``name``, or the empty text."""
    rest = _split_prefix(name)[1]
    if _is_system(name) or NAMESPACE_SEPARATOR not in rest:
        return ""
    return rest.partition(NAMESPACE_SEPARATOR)[0]


def has_namespace(namespace: str, name: str) -> bool:
    """Whether ``name`` is one of ``namespace``; names of the system are of none."""
    if not namespace or _is_system(name):
        return False
    return _split_prefix(name)[1].startswith(namespace + NAMESPACE_SEPARATOR)


def _is_system(name: str) -> bool:
    return is_system_topic(name) or is_system_group(name)


def _split_prefix(name: str) -> tuple[str, str]:
    for prefix in (RETRY_PREFIX, DLQ_PREFIX):
        if name.startswith(prefix):
            return prefix, name[len(prefix) :]
    return "", name
