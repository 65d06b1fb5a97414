"""What reaches Colab's front end; here no page answers."""


def enable_custom_widget_manager(version=None):
    pass


def disable_custom_widget_manager():
    pass


def eval_js(script, ignore_result=False, timeout_sec=None):
    pass


callbacks = {}


def register_callback(function_name, callback):
    callbacks[function_name] = callback
