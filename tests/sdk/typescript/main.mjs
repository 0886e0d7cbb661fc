// Plays the scenarios and writes one line of JSON for each.

import { readFileSync, writeFileSync, readdirSync } from 'node:fs';
import { dirname } from 'node:path';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';
import Anthropic from '@anthropic-ai/sdk';
import { Types } from './strict.mjs';
import { World } from './world.mjs';

const LONGEST = 180_000;
const AT_ONCE = 4;
const HERE = dirname(fileURLToPath(import.meta.url));

const { values: given } = parseArgs({
  options: { plan: { type: 'string' }, out: { type: 'string' }, only: { type: 'string', default: '' } },
});
const version = JSON.parse(readFileSync(`${HERE}/node_modules/@anthropic-ai/sdk/package.json`)).version;
const sdk = `typescript-${version}`;
const plan = JSON.parse(readFileSync(given.plan, 'utf8'));
const types = new Types(HERE);

const scenarios = {};
for (const file of readdirSync(`${HERE}/scenarios`).sort()) {
  for (const [name, play] of Object.entries((await import(`./scenarios/${file}`)).default)) {
    if (scenarios[name]) throw new Error(`scenario \`${name}\` is there twice`);
    scenarios[name] = play;
  }
}
const listed = plan.scenarios.map((entry) => entry.name);
const apart = [...listed.filter((name) => !scenarios[name]), ...Object.keys(scenarios).filter((name) => !listed.includes(name))];
if (apart.length) throw new Error(`not the same as the list: ${apart.join(', ')}`);

const chosen = plan.scenarios.filter((entry) => entry.name.startsWith(given.only));
const results = new Array(chosen.length);
let next = 0;
await Promise.all(Array.from({ length: AT_ONCE }, work));
writeFileSync(given.out, results.map((result) => `${JSON.stringify(result)}\n`).join(''));
const failed = results.filter((result) => result.result === 'fail');
for (const result of failed) console.log(`\n--- ${result.sdk} ${result.scenario}\n${result.error}`);
process.exit(failed.length ? 1 : 0);

async function work() {
  while (next < chosen.length) {
    const n = next++;
    const result = await play(chosen[n]);
    results[n] = result;
    const mark = { pass: 'ok  ', absent: 'none', fail: 'FAIL' }[result.result];
    console.log(`${mark} ${sdk} ${result.scenario} (${result.ms} ms)`);
  }
}

async function play(entry) {
  const world = new World(process.env.OUTLAST_TEST_URL, process.env.OUTLAST_TEST_KEY, types);
  const absent = entry.not_in[sdk];
  const began = performance.now();
  let error = null;
  try {
    if (absent) {
      if (entry.needs.every((need) => has(need))) throw new Error(`said to be absent (${absent}), but the client has it`);
    } else {
      await bounded(scenarios[entry.name](world));
      const missed = entry.operations.filter((name) => !world.seen.calls.has(name));
      if (missed.length) throw new Error(`never called: ${missed.join(', ')}`);
    }
  } catch (caught) {
    error = caught.stack ?? String(caught);
  }
  return {
    scenario: entry.name,
    operations: entry.operations,
    sdk,
    mode: 'async',
    result: error ? 'fail' : absent ? 'absent' : 'pass',
    ms: Math.round(performance.now() - began),
    error,
  };
}

function has(need) {
  if (need.startsWith('class:')) return need.slice('class:'.length) in Anthropic;
  try {
    return Boolean(types.of(need.split('?')[0]));
  } catch {
    return false;
  }
}

async function bounded(playing) {
  let timer;
  const late = new Promise((_, reject) => {
    timer = setTimeout(() => reject(new Error(`not over after ${LONGEST} ms`)), LONGEST);
  });
  await Promise.race([playing, late]).finally(() => clearTimeout(timer));
}
