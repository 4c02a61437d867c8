from __future__ import annotations


class _Platform:
    def is_cpu(self):
        return False

    def get_device_name(self):
        return "scripted"


current_platform = _Platform()
