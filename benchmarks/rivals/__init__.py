"""The engines that Twinfer is compared with."""
