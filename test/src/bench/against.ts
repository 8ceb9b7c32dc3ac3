import { type ChildProcess, execFile, spawn } from "node:child_process";
import { once } from "node:events";
import { cpSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { promisify } from "node:util";
import { repositoryFolder } from "../repository-folder.js";
import { type Bench, type Counts, medians, type Round, roundText } from "./measure.js";

const run = promisify(execFile);

/**
 * Measures the present tree and a revision of it in turns, so that other work of the machine slows both. The revision is
 * built in a temporary folder, with the benches of the present tree, which therefore have to compile there. Returns the
 * medians of both.
 */
export async function measureAgainst(
  revision: string,
  names: readonly string[],
  report: (line: string) => void,
): Promise<[now: Round, then: Round]> {
  const cache = join(repositoryFolder, ".cache");
  mkdirSync(cache, { recursive: true });
  const folder = mkdtempSync(join(cache, "bench-"));
  try {
    report(`building ${revision} in ${folder}`);
    await unpack(revision, folder);
    let [now, then]: [Round, Round] = [{}, {}];
    for (const name of names) {
      const rounds = await roundsInTurns([repositoryFolder, folder], name, report);
      now = { ...now, ...medians(rounds[0]) };
      then = { ...then, ...medians(rounds[1]) };
    }
    return [now, then];
  } finally {
    rmSync(folder, { recursive: true });
  }
}

async function unpack(revision: string, folder: string): Promise<void> {
  const git = (...args: string[]) => run("git", ["-C", repositoryFolder, ...args]);
  const { stdout } = await git("rev-parse", "--verify", "--end-of-options", `${revision}^{commit}`);
  const archive = join(folder, "archive.tar");
  await git("archive", `--output=${archive}`, stdout.trim());
  await run("tar", ["-xf", archive, "-C", folder]);
  rmSync(archive);
  // Beside the revision's own benches, whose files others may import.
  cpSync(join(repositoryFolder, "test/src/bench"), join(folder, "test/src/bench-now"), { recursive: true });
  writeFileSync(join(folder, "test/src/bench/main.ts"), 'import "../bench-now/main.js";\n');
  // Linked, because the revision's own `npm ci` is then needed only where it has other dependencies.
  await run("cp", ["-al", join(repositoryFolder, "node_modules"), folder]);
}

async function roundsInTurns(
  roots: readonly [string, string],
  name: string,
  report: (line: string) => void,
): Promise<[Round[], Round[]]> {
  const children: ChildProcess[] = [];
  const rounds: [Round[], Round[]] = [[], []];
  try {
    let counts: Counts = { warmUpRounds: 0, rounds: 0 };
    for (const root of roots) {
      const args = [join(root, "deploy/local/bootstrap.mjs"), "bench", "--turns", "--only", name];
      const child = spawn(process.execPath, args, { cwd: root, stdio: ["ignore", 2, 2, "ipc"] });
      children.push(child);
      counts = (await messageOf(child)) as Counts;
    }
    for (let turn = -counts.warmUpRounds; turn < counts.rounds; turn++)
      for (const [i, child] of children.entries()) {
        report(`${name}, ${roundText(turn, counts)}, of ${i === 0 ? "the present tree" : "the revision"}`);
        child.send("round");
        const round = (await messageOf(child)) as Round;
        if (turn >= 0) rounds[i]?.push(round);
      }
    return rounds;
  } finally {
    for (const child of children) {
      if (child.exitCode !== null || child.signalCode !== null) continue;
      child.disconnect();
      await once(child, "exit");
    }
  }
}

/** Returns the next message of the process. Throws when the process ends instead. */
async function messageOf(child: ChildProcess): Promise<unknown> {
  const ended = new AbortController();
  const { signal } = ended;
  const exited = once(child, "exit", { signal }).then(([code]) => {
    throw new Error(`a process of the bench ended with ${code}`);
  });
  try {
    const [message] = (await Promise.race([once(child, "message", { signal }), exited])) as unknown[];
    return message;
  } finally {
    exited.catch(() => {});
    ended.abort();
  }
}

/** Runs a round for each message of the parent process, until it disconnects. */
export async function takeTurns(start: () => Promise<Bench>): Promise<void> {
  await using bench = await start();
  process.on("message", () => {
    bench.round().then(
      (round) => process.send?.(round),
      (error: unknown) => {
        console.error(error);
        process.exit(1);
      },
    );
  });
  const disconnected = once(process, "disconnect");
  process.send?.({ warmUpRounds: bench.warmUpRounds, rounds: bench.rounds } satisfies Counts);
  await disconnected;
}
