// The client with an eye on it: what is called, and whether each answer is what its type says.

import assert from 'node:assert/strict';
import Anthropic from '@anthropic-ai/sdk';

/** What a scenario has called. */
export class Seen {
  constructor(types) {
    this.types = types;
    this.calls = new Set();
  }

  keep(path, value) {
    const faults = this.types.faults(value, path);
    assert.deepEqual(faults, [], `${path}: ${faults.join('; ')}`);
    return value;
  }
}

/** Holds nothing to its type: the server does not make what it only passes on. */
export class Passing extends Seen {
  constructor(seen) {
    super(seen.types);
    this.calls = seen.calls;
  }

  keep(path, value) {
    return value;
  }
}

/** Wraps a resource of the client; its methods are called as they are. */
export function watch(target, seen, path = '') {
  return new Proxy(target, {
    get(_, name) {
      const inner = target[name];
      const below = path ? `${path}.${String(name)}` : String(name);
      if (typeof inner === 'function') return (...given) => call(target, inner, given, seen, below);
      return inner !== null && typeof inner === 'object' ? watch(inner, seen, below) : inner;
    },
  });
}

async function call(target, method, given, seen, path) {
  seen.calls.add(path.replace(/[A-Z]+/g, (sign) => `_${sign.toLowerCase()}`));
  const result = await method.apply(target, given);
  if (result instanceof Response) return result;
  if (result?.controller) return new Events(result, seen, path);
  if (typeof result?.getNextPage === 'function') return new Page(result, seen, path);
  return seen.keep(path, result);
}

/** A page of a list; iterating goes through all pages, as the client does it. */
class Page {
  constructor(inner, seen, path) {
    Object.assign(this, { inner, seen, path });
    this.data = inner.data.map((item) => seen.keep(path, item));
    this.nextPage = inner.next_page ?? null;
    this.prevPage = inner.prev_page ?? null;
  }

  async next() {
    return new Page(await this.inner.getNextPage(), this.seen, this.path);
  }

  async *[Symbol.asyncIterator]() {
    for await (const item of this.inner) yield this.seen.keep(this.path, item);
  }

  /** Reads every item of every page. */
  async all() {
    const found = [];
    for await (const item of this) found.push(item);
    return found;
  }
}

/** An open stream of events. */
class Events {
  constructor(inner, seen, path) {
    Object.assign(this, { inner, seen, path });
    this.items = inner[Symbol.asyncIterator]();
  }

  /** Returns the next event; `undefined` at the end. */
  async next() {
    const { value, done } = await this.items.next();
    return done ? undefined : this.seen.keep(this.path, value);
  }

  close() {
    this.inner.controller.abort();
  }
}

/** Awaits work that must be refused with this class of error, and returns the error. */
export async function refused(work, name) {
  let error;
  try {
    await work;
  } catch (caught) {
    error = caught;
  }
  assert.ok(error, `${name} was expected, but the call was accepted`);
  assert.ok(error instanceof Anthropic[name], `${error.constructor.name} in place of ${name}: ${error.message}`);
  return error;
}
