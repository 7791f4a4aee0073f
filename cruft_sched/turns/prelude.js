// Runs before the agent, in the same context. It takes the host's functions off the global object, and puts the
// agent's globals there, frozen. What it needs of the language it keeps, so that the agent cannot change it.
(function (contextJson, scheduled) {
  'use strict';
  const G = globalThis;
  const { parse, stringify } = JSON;
  const { freeze, defineProperty, getOwnPropertyNames } = Object;
  const { isFinite } = Number;
  const { ceil } = Math;
  const { isArray } = Array;
  const { apply, ownKeys } = Reflect;
  const now = Date.now;
  const parseDate = Date.parse;
  const then = Promise.prototype.then;
  const slice = String.prototype.slice;
  const Text = String, Err = Error, TypeErr = TypeError, RangeErr = RangeError;

  const host = {};
  for (const name of ['emit', 'state_get', 'state_keys', 'state_set', 'state_delete', 'suspend', 'complete', 'fail']) {
    host[name] = G['__' + name];
    delete G['__' + name];
  }
  for (const name of ['performance', 'WeakRef', 'FinalizationRegistry', 'SharedArrayBuffer', 'Atomics']) delete G[name];

  // JSON.stringify writes such an escape for a lone surrogate only, unless the backslash is itself escaped.
  const HALF_PAIR = /(?:^|[^\\])(?:\\\\)*\\ud[89a-f]/;
  const test = RegExp.prototype.test;
  const TEN_YEARS_MS = 315576000000;
  let closed = false;
  let result = 'null';

  function open(call) {
    if (closed) throw new Err(call + ': the agent has closed');
  }

  function json(value, what) {
    const text = stringify(value);
    if (text === undefined) throw new TypeErr(what + ' has no JSON form');
    if (apply(test, HALF_PAIR, [text])) throw new TypeErr(what + ' holds half a surrogate pair, which is no text');
    return text;
  }

  function key(name) {
    if (typeof name !== 'string') throw new TypeErr('state: a key is a string');
    return stringify(name);
  }

  function cut(value, length) {
    return apply(slice, value, [0, length]);
  }

  function deepFreeze(value) {
    if (value === null || typeof value !== 'object') return value;
    for (const name of ownKeys(value)) deepFreeze(value[name]);
    return freeze(value);
  }

  function describe(error) {
    const told = { name: 'Error', message: '', stack: '' };
    try {
      if (error !== null && typeof error === 'object') {
        for (const part of ['name', 'message', 'stack']) {
          const value = error[part];
          if (value !== undefined) told[part] = Text(value);
        }
      } else {
        told.message = Text(error);
      }
    } catch {
      told.message = 'an error that cannot be shown';
    }
    return { name: cut(told.name, 200), message: cut(told.message, 2000), stack: cut(told.stack, 4000) };
  }

  function fail(error) {
    host.fail(stringify(describe(error)));
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
  };

  function suspend(call, request) {
    open(call);
    host.suspend(stringify(request));
  }

  function instant(when) {
    if (typeof when === 'string') return parseDate(when);
    return typeof when === 'number' ? when : NaN;
  }

  const scheduler = {
    sleep(ms) {
      if (typeof ms !== 'number' || !isFinite(ms) || ms < 0 || ms > TEN_YEARS_MS) {
        throw new TypeErr('scheduler.sleep: give milliseconds, a finite number from 0 to ' + TEN_YEARS_MS);
      }
      suspend('scheduler.sleep', { kind: 'sleep', delay_ms: ceil(ms) });
    },
    sleepUntil(when) {
      const at = ceil(instant(when));
      if (!isFinite(at) || at < 0 || at - now() > TEN_YEARS_MS) {
        throw new TypeErr('scheduler.sleepUntil: give an ISO 8601 time or epoch milliseconds, at most ten years ahead');
      }
      suspend('scheduler.sleepUntil', { kind: 'sleep_until', deadline_ms: at });
    },
  };

  function close(value) {
    open('close');
    result = value === undefined ? 'null' : json(value, 'close: the value');
    closed = true;
  }

  const globals = { context: deepFreeze(parse(contextJson)), state: freeze(state), emit, close };
  if (scheduled) globals.scheduler = freeze(scheduler);
  for (const name of getOwnPropertyNames(globals)) {
    defineProperty(G, name, { value: freeze(globals[name]), writable: false, configurable: false, enumerable: true });
  }

  return freeze({
    watch(main) {
      apply(then, main, [() => host.complete(result), fail]);
    },
    broken(name, message, stack) {
      host.fail(stringify({ name, message, stack }));
    },
    stalled() {
      host.fail(stringify({
        name: 'Error', message: 'the agent awaits something that can never happen', stack: '',
      }));
    },
  });
})
