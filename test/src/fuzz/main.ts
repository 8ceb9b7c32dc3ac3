import { parseArgs } from "node:util";
import { messageOf } from "@diskmesh/domain";
import { resultLines } from "./result-lines.js";
import { runFuzz } from "./run.js";
import { SURFACE_NAMES } from "./surfaces.js";

const USAGE = `usage: npm run fuzz -- [--minutes N | --inputs N] [--seed S] [--surface NAME]...
       npm run fuzz -- --seed S --surface NAME --at N|N..M

Sends what nobody should send to everything that listens or reads, until the time is over or something is found.
  --minutes N      30 unless given; from 5 on memory, handles and descriptors are looked at, too
  --inputs N       ends after so many, if that is sooner; from 50,000 on they are looked at, too
  --seed S         the same inputs again; any unless given
  --surface NAME   only this one; may be given several times: ${SURFACE_NAMES.join(", ")}
  --at N, N..M     only these inputs of the surface, as a find names them; --at=-1 is the first of those that are kept
`;
const DEFAULT_MINUTES = 30;

function whole(name: string, text: string | undefined): number | undefined {
  if (text === undefined) return undefined;
  const value = Number(text);
  if (Number.isSafeInteger(value) && (value >= 0 || name === "at") && text !== "") return value;
  throw new Error(`--${name} is ${text}: give a whole number`);
}

function range(text: string | undefined): { first: number; last: number } | undefined {
  if (text === undefined) return undefined;
  const [first, last = first, ...rest] = text.split("..").map((part) => whole("at", part));
  if (first === undefined || last === undefined || rest.length > 0 || first > last)
    throw new Error(`--at is ${text}: give N or N..M`);
  return { first, last };
}

function surfacesOf(names: readonly string[] | undefined): readonly string[] {
  const unknown = names?.find((name) => !SURFACE_NAMES.includes(name));
  if (unknown !== undefined) throw new Error(`there is no surface ${unknown}: give one of ${SURFACE_NAMES.join(", ")}`);
  return names ?? SURFACE_NAMES;
}

const report = (line: string) => void process.stdout.write(`fuzz: ${line}\n`);

async function main(): Promise<void> {
  const { values } = parseArgs({
    options: {
      minutes: { type: "string" },
      inputs: { type: "string" },
      seed: { type: "string" },
      surface: { type: "string", multiple: true },
      at: { type: "string" },
      help: { type: "boolean", default: false },
    },
  });
  if (values.help) return void process.stdout.write(USAGE);
  const at = range(values.at);
  const surfaces = surfacesOf(values.surface);
  if (at !== undefined && (surfaces.length !== 1 || values.seed === undefined))
    throw new Error("--at needs the --seed and the one --surface of the find");
  const seed = whole("seed", values.seed) ?? Math.floor(Math.random() * 1_000_000) + 1;
  const inputs = whole("inputs", values.inputs);
  const minutes = whole("minutes", values.minutes) ?? (inputs === undefined ? DEFAULT_MINUTES : undefined);
  report(`seed ${seed}; ${surfaces.join(", ")}`);
  const result = await runFuzz({
    seed,
    surfaces,
    report,
    ...(minutes !== undefined && { minutes }),
    ...(inputs !== undefined && { inputs }),
    ...(at && { at }),
  });
  for (const line of resultLines(result)) report(line);
  if (result.finds.length > 0) process.exitCode = 1;
}

try {
  await main();
} catch (error) {
  process.stderr.write(`fuzz: ${messageOf(error)}\n${USAGE}`);
  process.exitCode = 2;
}
// After a find, clients of a stuck server may still wait, and would keep the process alive.
process.exit();
