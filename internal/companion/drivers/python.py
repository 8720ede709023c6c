import ast, inspect, linecache, os, signal, sys, traceback, types

def serve():
    requests, out, err = os.dup(0), os.dup(1), os.dup(2)
    null = os.open(os.devnull, os.O_RDONLY)
    os.dup2(null, 0)
    os.close(null)
    module = types.ModuleType("__main__")
    sys.modules["__main__"] = module
    names = module.__dict__
    names["__builtins__"] = __builtins__
    pid, pending, count, loop = os.getpid(), b"", 0, None

    def write(fd, data):
        while data:
            data = data[os.write(fd, data):]

    def field():
        nonlocal pending
        while b"\0" not in pending:
            data = os.read(requests, 65536)
            if not data:
                os._exit(0)
            pending += data
        text, _, pending = pending.partition(b"\0")
        return text

    def run(tree, name, mode):
        nonlocal loop
        code = compile(tree, name, mode, flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
        if not code.co_flags & inspect.CO_COROUTINE:
            signal.signal(signal.SIGINT, signal.default_int_handler)
            return eval(code, names)
        import asyncio
        if loop is None:
            loop = asyncio.new_event_loop()
            asyncio.set_event_loop(loop)
        task, interrupts = None, 0

        # An exception inside of the event loop could have it forget what it was about
        # to wake, so code is cancelled first, and interrupted only where it does not
        # come to wait.
        def interrupt(*_):
            nonlocal interrupts
            interrupts += 1
            if task is None or task.done():
                return
            if interrupts > 1:
                raise KeyboardInterrupt
            task.cancel()
            loop.call_soon_threadsafe(idle)

        signal.signal(signal.SIGINT, interrupt)
        task = loop.create_task(eval(code, names))
        if interrupts:
            task.cancel()
        try:
            return loop.run_until_complete(task)
        except asyncio.CancelledError:
            if interrupts:
                raise KeyboardInterrupt from None
            raise
        except BaseException:
            settle(task)
            raise

    # What was interrupted while it waited would go on beside the next code. A task that
    # the event loop was about to wake when it was interrupted is never woken again, and
    # the loop is of no use any more.
    def settle(task):
        nonlocal loop
        import asyncio
        while True:
            try:
                signal.signal(signal.SIGINT, idle)
                if not task.done():
                    task.cancel()
                    loop.run_until_complete(asyncio.wait([task], timeout=1))
                if not task.done():
                    loop = None
                elif not task.cancelled():
                    task.exception()  # which is told, here or nowhere
                return
            except KeyboardInterrupt:
                pass

    def evaluate(source, name):
        tree = ast.parse(source, name)
        last = None
        if tree.body and isinstance(tree.body[-1], ast.Expr):
            last = ast.Expression(tree.body.pop().value)
        run(tree, name, "exec")
        if last is None:
            return ""
        value = run(last, name, "eval")
        if value is None:
            return ""
        names["_"] = value
        return repr(value)

    def idle(*_):
        pass

    signal.signal(signal.SIGINT, idle)
    while True:
        nonce, source = field(), field().decode("utf-8", "replace")
        count += 1
        name = "<input %d>" % count
        linecache.cache[name] = (len(source), None, source.splitlines(True), name)
        linecache.cache.pop("<input %d>" % (count - 1000), None)
        value, failed = "", b"0"
        try:
            try:
                signal.signal(signal.SIGINT, signal.default_int_handler)
                value = evaluate(source, name)
            finally:
                signal.signal(signal.SIGINT, idle)
        except BaseException as e:
            failed = b"1"
            trace = e.__traceback__
            while trace is not None and not trace.tb_frame.f_code.co_filename.startswith("<input "):
                trace = trace.tb_next
            try:
                text = "".join(traceback.format_exception(type(e), e, trace))
            except Exception:
                text = type(e).__name__ + "\n"
        if os.getpid() != pid:  # a child that the code forked and left
            os._exit(0)
        for stream in (sys.stdout, sys.stderr):
            try:
                stream.flush()
            except Exception:
                pass
        if failed == b"1":
            write(err, text.encode("utf-8", "replace"))
        write(err, b"\0" + nonce + failed + b"\0")
        write(out, b"\0" + nonce + b"v\0" + value[:100000].encode("utf-8", "replace"))
        write(out, b"\0" + nonce + failed + b"\0")

serve()
