'use strict';
(() => {
  const repl = require('node:repl');
  const { PassThrough, Writable } = require('node:stream');
  const { inspect } = require('node:util');
  const nothing = new Writable({ write(_data, _encoding, done) { done(); } });
  const server = repl.start({
    prompt: '', input: new PassThrough(), output: nothing,
    terminal: false, useGlobal: true, useColors: false, breakEvalOnSigint: true,
  });
  const stdin = process.stdin;

  // A stream that is interrupted while it writes never writes again. These have
  // nothing that could be left half done.
  const { writeSync } = require('node:fs');
  const pause = new Int32Array(new SharedArrayBuffer(4));
  const writer = (fd) => (data, encoding, done) => {
    let left = typeof data === 'string' ? Buffer.from(data, typeof encoding === 'string' ? encoding : 'utf8') : data;
    while (left.length > 0) {
      try {
        left = left.subarray(writeSync(fd, left));
      } catch (e) {
        if (e.code !== 'EAGAIN') throw e;
        Atomics.wait(pause, 0, 0, 1);
      }
    }
    if (typeof encoding === 'function') done = encoding;
    if (typeof done === 'function') process.nextTick(done);
    return true;
  };
  const outWrite = writer(1), errWrite = writer(2);
  process.stdout.write = writer(1);
  process.stderr.write = writer(2);

  // An interrupt ends the process in each moment in which nobody listens. Node
  // stops code that computes with a watchdog, which sets listeners of the process
  // aside, and is no longer there when the code begins to wait. But it counts who
  // needs it: one that is never given back listens for ever, and keeps what
  // nobody took. Only code that has waited, and then computes without an end, is
  // stopped by nothing: what ends it there takes the process with it.
  let watchdog = null; // where Node does not give it away there is a gap
  try { watchdog = process.binding('contextify'); watchdog.startSigintWatchdog(); } catch { watchdog = null; }
  const takeInterrupt = () => watchdog !== null && watchdog.startSigintWatchdog() && watchdog.stopSigintWatchdog();

  let pending = Buffer.alloc(0), busy = false, interrupt = null;
  const onSigint = () => { if (interrupt) interrupt(); };
  server.removeAllListeners('SIGINT');
  server.on('SIGINT', onSigint); // which came when the code had just computed
  if (watchdog === null) process.on('SIGINT', onSigint);
  const ours = /^ +at .*(node:|\[eval\])/; // frames that are not of the code
  const show = (e) => {
    const text = e instanceof Error && e.stack ? e.stack.split('\n').filter((line) => !ours.test(line)).join('\n') : inspect(e);
    errWrite('Uncaught ' + text + '\n');
  };
  let fail = null;
  const failed = (e) => { if (fail) fail(e); else show(e); };
  // What fails later, in a timer or a promise, is told and ends nothing.
  process.on('uncaughtException', failed);
  process.on('unhandledRejection', failed);
  if (server._domain) { // where it sends what code throws, instead of to the callback
    server._domain.removeAllListeners('error');
    server._domain.on('error', failed);
  }

  function next() {
    if (busy) return;
    const first = pending.indexOf(0);
    const second = first < 0 ? -1 : pending.indexOf(0, first + 1);
    if (second < 0) return;
    const nonce = pending.subarray(0, first).toString();
    const code = pending.subarray(first + 1, second).toString();
    pending = pending.subarray(second + 1);
    busy = true;
    let ended = false;
    const end = (error, value) => {
      if (ended) return;
      ended = true;
      interrupt = fail = null;
      let text = '', status = '0';
      if (error !== null && error !== undefined) {
        status = '1';
        show(error instanceof repl.Recoverable ? error.err : error);
      } else if (value !== undefined) {
        server.context._ = value;
        try { text = inspect(value).slice(0, 100000); } catch (e) { text = String(e); }
      }
      errWrite(`\0${nonce}${status}\0`);
      outWrite(`\0${nonce}v\0${text}`);
      outWrite(`\0${nonce}${status}\0`);
      busy = false;
      setImmediate(next);
    };
    interrupt = () => end(new Error('interrupted'));
    fail = (e) => end(e);
    takeInterrupt(); // of the code before
    if (watchdog === null) process.removeListener('SIGINT', onSigint);
    server.eval(code + '\n', server.context, 'input', (error, value) => end(error, value));
    if (watchdog === null) process.on('SIGINT', onSigint);
    if (ended || watchdog === null) return;
    const listening = setInterval(() => {
      if (ended) clearInterval(listening);
      else if (takeInterrupt()) onSigint();
    }, 10);
  }
  stdin.on('data', (data) => { pending = Buffer.concat([pending, data]); next(); });
  stdin.on('end', () => process.exit());
})();
