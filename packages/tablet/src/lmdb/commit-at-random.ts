/** A process for tests: commits at random to a data file, says so after each commit, and goes on until it is killed or done. */
import { open } from "lmdb";
import { randomOf } from "../contract/random.js";
import { LMDB_OPTIONS } from "./lmdb-options.js";

const [path, seed, commits] = process.argv.slice(2) as [string, string, string];
const TABLES = 5;
const KEYS = 600;
const CHANGES = [1, 10, 200] as const;
const VALUES_SIZE_BYTES = [1, 300, 1_500, 2_100, 9_000, 90_000] as const;
const UNDONE = "undone";

const random = randomOf(Number(seed));
const below = (bound: number): number => Math.floor(random() * bound);
const pick = <T>(choices: readonly T[]): T => choices[below(choices.length)] as T;

const root = open<string, Buffer>({ ...LMDB_OPTIONS, path, encoding: "string" });
const tables = Array.from({ length: TABLES }, (_, index) =>
  root.openDB<string, Buffer>({ name: `table${index}`, encoding: "string", keyEncoding: "binary" }),
);
for (let commit = 0; commit < Number(commits); commit++) {
  const deletesShare = pick([0.1, 0.4, 0.8]);
  const changes = pick(CHANGES);
  const change = (): void => {
    for (let index = 0; index < changes; index++) {
      const number = below(KEYS);
      const key = Buffer.from(`${number}`.repeat(1 + (number % 90)));
      if (random() < deletesShare) pick(tables).removeSync(key);
      else pick(tables).putSync(key, "x".repeat(1 + below(pick(VALUES_SIZE_BYTES))));
    }
    if (random() < 0.1) throw new Error(UNDONE);
  };
  await root.childTransaction(change).catch((error: Error) => {
    if (error.message !== UNDONE) throw error;
  });
  process.stdout.write(`${commit}\n`);
}
await root.close();
