// Runs before the agent, in the same context. It takes the host's functions off the global object, and puts the
// agent's globals there, frozen. What it needs of the language it keeps, so that the agent cannot change it.
(function (callsJson, contextJson, scheduled) {
  'use strict';
  const G = globalThis;
  const { parse, stringify } = JSON;
  const { freeze, defineProperty, getOwnPropertyNames, setPrototypeOf, keys, hasOwn } = Object;
  const { isFinite, isInteger } = Number;
  const { ceil } = Math;
  const { isArray } = Array;
  const { apply, ownKeys } = Reflect;
  const RealDate = Date;
  const now = Date.now;
  const parseDate = Date.parse;
  const { getUTCDate } = Date.prototype;
  const then = Promise.prototype.then;
  const { slice, toWellFormed } = String.prototype;
  const Text = String, Err = Error, TypeErr = TypeError, RangeErr = RangeError;

  const host = {};
  const calls = parse(callsJson);
  for (const name of calls) {
    host[name] = G['__' + name];
    delete G['__' + name];
  }
  for (const name of ['performance', 'WeakRef', 'FinalizationRegistry', 'SharedArrayBuffer', 'Atomics']) delete G[name];

  // JSON.stringify writes such an escape for a lone surrogate only, unless the backslash is itself escaped.
  const HALF_PAIR = /(?:^|[^\\])(?:\\\\)*\\ud[89a-f]/;
  const { exec } = RegExp.prototype; // not `test`, which would call the `exec` of the day
  const TOLD = ['disposition', 'tool', 'timeout_ms', 'duration_ms'];
  const TEN_YEARS_MS = 315576000000;
  const MAX_ATTEMPTS = 100;
  let closed = false;
  let result = 'null';

  function open(call) {
    if (closed) throw new Err(call + ': the agent has closed');
  }

  function json(value, what) {
    const text = stringify(value);
    if (text === undefined) throw new TypeErr(what + ' has no JSON form');
    if (apply(exec, HALF_PAIR, [text]) !== null) throw new TypeErr(what + ' holds half a surrogate pair, which is no text');
    return text;
  }

  function key(name) {
    if (typeof name !== 'string') throw new TypeErr('state: a key is a string');
    return json(name, 'state: the key');
  }

  function cut(value, length) {
    return apply(toWellFormed, apply(slice, value, [0, length]), []);
  }

  // Messages have no prototype: what the agent puts on Object.prototype (a toJSON) does not reach them.
  function plain(fields) {
    return setPrototypeOf(fields, null);
  }

  // Not recursive: a tool's result may be nested deeper than the engine's stack.
  function deepFreeze(value) {
    const todo = [value];
    while (todo.length > 0) {
      const holder = todo.pop();
      if (holder === null || typeof holder !== 'object') continue;
      for (const name of ownKeys(holder)) todo.push(holder[name]);
      freeze(holder);
    }
    return value;
  }

  const NULL_THROWN = 'null was thrown, as the engine does when no memory is left (the budget max_rss_mb)';

  function describe(error) {
    const told = { name: 'Error', message: '', stack: '' };
    try {
      if (error !== null && typeof error === 'object') {
        for (const part of ['name', 'message', 'stack']) {
          const value = error[part];
          if (value !== undefined) told[part] = Text(value);
        }
      } else {
        told.message = error === null ? NULL_THROWN : Text(error);
      }
    } catch {
      told.message = 'an error that cannot be shown';
    }
    return plain({ name: cut(told.name, 200), message: cut(told.message, 2000), stack: cut(told.stack, 4000) });
  }

  function fail(error) {
    const told = describe(error);
    if (told.name === 'InternalError' && told.message === 'out of memory') host.out_of_memory();
    host.fail(stringify(told));
  }

  function auditNote(value) {
    open('auditNote');
    host.note(json(value, 'auditNote: the value'));
  }

  function emit(event) {
    open('emit');
    if (event === null || typeof event !== 'object' || isArray(event)) throw new TypeErr('emit: an event is an object');
    const text = json(event, 'emit: the event');
    if (text[0] !== '{') throw new TypeErr('emit: an event is an object');
    host.emit(text);
  }

  const state = {
    get(name) {
      open('state.get');
      const text = host.state_get(key(name));
      return text === null || text === undefined ? undefined : parse(text);
    },
    set(name, value) {
      open('state.set');
      if (!host.state_set(key(name), json(value, 'state.set: the value'))) {
        throw new RangeErr('state.set: the budget max_state_bytes would be exceeded; nothing was stored');
      }
    },
    delete(name) {
      open('state.delete');
      return host.state_delete(key(name));
    },
    list() {
      open('state.list');
      return parse(host.state_keys());
    },
    reset() {
      open('state.reset');
      host.state_reset();
    },
  };

  function suspend(call, request) {
    open(call);
    host.suspend(stringify(plain(request)));
  }

  function milliseconds(call, ms, what) {
    if (typeof ms !== 'number' || !isFinite(ms) || ms < 0 || ms > TEN_YEARS_MS) {
      throw new TypeErr(call + ': ' + what + ' is a finite number of milliseconds from 0 to ' + TEN_YEARS_MS);
    }
    return ceil(ms);
  }

  // ISO 8601 and no more: the engine's own parser takes "5" for a year, and the 30th of February for a day in March.
  // (It takes the month 00, too, and the hour 24, which Python does not take.)
  const ISO = /^(\d{4})-(0[1-9]|1[0-2])-(\d\d)(?:T(?:[01]\d|2[0-3]):[0-5]\d(?::[0-5]\d(?:\.\d{1,9})?)?(?:Z|[+-](?:[01]\d|2[0-3]):[0-5]\d)?)?$/;

  function instant(when) {
    if (typeof when === 'number') return when;
    const parts = typeof when === 'string' ? apply(exec, ISO, [when]) : null;
    if (parts === null) return NaN;
    const midnight = new RealDate(parseDate(parts[1] + '-' + parts[2] + '-' + parts[3] + 'T00:00:00Z'));
    return apply(getUTCDate, midnight, []) === +parts[3] ? parseDate(when) : NaN;
  }

  function text(call, value, what) {
    if (typeof value !== 'string' || value.length < 1 || value.length > 200) {
      throw new TypeErr(call + ': ' + what + ' is a text of 1 to 200 characters');
    }
    json(value, call + ': ' + what);
    return value;
  }

  function boundedText(call, value, what) {
    const text = json(value === undefined ? null : value, call + ': ' + what);
    if (!host.fits(text)) throw new RangeErr(call + ': ' + what + ' would exceed the budget max_tool_arg_bytes');
    return text;
  }

  function bounded(call, value, what) {
    return parse(boundedText(call, value, what));
  }

  // The options of a call, each read once; one that is not known is an error, so that none is ever passed over.
  function readOptions(call, given, known) {
    if (given === undefined || given === null) return plain({});
    if (typeof given !== 'object' || isArray(given)) throw new TypeErr(call + ': the options are an object');
    const options = plain({});
    for (const name of keys(given)) {
      let found = false;
      for (const other of known) found ||= other === name;
      if (!found) throw new TypeErr(call + ': unknown option ' + name);
      options[name] = given[name];
    }
    return options;
  }

  function readRetry(call, given) {
    const options = readOptions(call + ': retry', given, ['max_attempts', 'backoff_ms']);
    const { max_attempts, backoff_ms } = options;
    if (!isInteger(max_attempts) || max_attempts < 1 || max_attempts > MAX_ATTEMPTS) {
      throw new TypeErr(call + ': retry.max_attempts is a whole number from 1 to ' + MAX_ATTEMPTS);
    }
    const retry = { max_attempts };
    if (backoff_ms !== undefined) retry.backoff_ms = milliseconds(call, backoff_ms, 'retry.backoff_ms');
    return plain(retry);
  }

  function toolError(told) {
    if (told.invalid_args) return new TypeErr(told.message);
    const error = new Err(told.message);
    for (let i = 0; i < TOLD.length; i++) {
      if (told[TOLD[i]] !== undefined) setOwn(error, TOLD[i], told[TOLD[i]]);
    }
    defineProperty(error, 'name', plain({ value: 'ToolError', writable: true, configurable: true }));
    return error;
  }

  function setOwn(holder, name, value) {
    defineProperty(holder, name, plain({ value, writable: true, configurable: true, enumerable: true }));
  }

  // Async, so that whatever is wrong rejects; the promise is settled when the call returns.
  async function callTool(name, args, given) {
    open('callTool');
    const options = readOptions('callTool', given, ['timeout_ms']);
    const tool = stringify(text('callTool', name, 'the tool'));
    const ms = options.timeout_ms === undefined ? null : milliseconds('callTool', options.timeout_ms, 'timeout_ms');
    // Three texts, not one put together here: the engine's package cannot take a large text that was put together.
    const answer = plain(parse(host.call_tool(tool, boundedText('callTool', args, 'args'), stringify(ms))));
    if (answer.error !== undefined) throw toolError(plain(answer.error));
    return answer.result;
  }

  const scheduler = {
    sleep(ms) {
      suspend('scheduler.sleep', { kind: 'sleep', delay_ms: milliseconds('scheduler.sleep', ms, 'the time') });
    },
    sleepUntil(when) {
      const at = instant(when);
      if (!isFinite(at) || at < 0 || at - now() > TEN_YEARS_MS) {
        throw new TypeErr('scheduler.sleepUntil: give an ISO 8601 time or epoch milliseconds, at most ten years ahead');
      }
      suspend('scheduler.sleepUntil', { kind: 'sleep_until', deadline_ms: ceil(at) });
    },
    callTool(name, args, given) {
      const call = 'scheduler.callTool';
      const options = readOptions(call, given, ['timeout_ms', 'retry']);
      const request = { kind: 'tool', tool: text(call, name, 'the tool'), args: bounded(call, args, 'args') };
      if (options.timeout_ms !== undefined) request.timeout_ms = milliseconds(call, options.timeout_ms, 'timeout_ms');
      if (options.retry !== undefined) request.retry = readRetry(call, options.retry);
      suspend(call, request);
    },
    waitForInput(kind, payload, given) {
      const call = 'scheduler.waitForInput';
      const options = readOptions(call, given, ['schema', 'timeout_ms', 'on_timeout']);
      const request = {
        kind: 'input', input_kind: text(call, kind, 'the kind'), payload: bounded(call, payload, 'the payload'),
      };
      if (options.schema !== undefined) request.schema = bounded(call, options.schema, 'the schema');
      if (options.timeout_ms !== undefined) request.timeout_ms = milliseconds(call, options.timeout_ms, 'timeout_ms');
      if (options.on_timeout !== undefined) {
        if (options.on_timeout !== 'resume' && options.on_timeout !== 'fail') {
          throw new TypeErr(call + ': on_timeout is "resume" or "fail"');
        }
        if (options.timeout_ms === undefined) throw new TypeErr(call + ': on_timeout goes with timeout_ms');
        request.on_timeout = options.on_timeout;
      }
      suspend(call, request);
    },
  };

  // As ShadowRealm's: a promise of one export. A relative specifier starts where the agent's own do.
  function importValue(specifier, name) {
    open('importValue');
    if (typeof specifier !== 'string' || typeof name !== 'string') {
      throw new TypeErr('importValue: the specifier and the name are strings');
    }
    return apply(then, import(specifier), [(module) => {
      if (!hasOwn(module, name)) throw new TypeErr('importValue: ' + specifier + ' has no export ' + name);
      return module[name];
    }]);
  }

  function close(value) {
    open('close');
    result = value === undefined ? 'null' : json(value, 'close: the value');
    closed = true;
  }

  const globals = {
    context: deepFreeze(parse(contextJson)), state: freeze(state), emit, callTool, auditNote, importValue, close,
  };
  if (scheduled) globals.scheduler = freeze(scheduler);
  for (const name of getOwnPropertyNames(globals)) {
    defineProperty(G, name, { value: freeze(globals[name]), writable: false, configurable: false, enumerable: true });
  }

  let pending = 0; // modules whose top level has not come to its end

  return freeze({
    watch(main) {
      pending += 1;
      apply(then, main, [() => { pending -= 1; }, fail]);
    },
    broken(name, message, stack) {
      if (name === 'null' || message === 'out of memory') host.out_of_memory(); // null: not even for the error was there any
      host.fail(stringify(plain({ name: cut(name, 200), message: cut(message, 2000), stack: cut(stack, 4000) })));
    },
    // When nothing is left to run: what the agent set going without waiting for it has come to its end too.
    finish() {
      if (pending === 0) host.complete(result);
      fail(new Err('the agent awaits something that can never happen'));
    },
  });
})
