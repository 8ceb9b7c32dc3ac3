import { type ChildProcess, spawn } from "node:child_process";
import { createInterface } from "node:readline";
import { fileURLToPath } from "node:url";
import { expect } from "chai";
import type { Contents, StorageLocation } from "./storage-location.js";

const CHILD = fileURLToPath(new URL("./commit-until-killed.js", import.meta.url));

/**
 * Checks that all documents come from one commit, whose number is at least `acknowledged`. Each commit of the child
 * writes its number to the same three documents, and replaces the document that is named after the previous number.
 */
export function expectWholeCommit(contents: Contents, acknowledged: number): void {
  const { n } = contents.get("hosts/a") as { n: number };
  expect(n).to.be.at.least(acknowledged);
  expect(contents).to.deep.equal(
    new Map<string, unknown>([
      ["hosts/a", { n }],
      ["hosts/b", { n }],
      ["devices/c", { n, text: "x".repeat((n * 997) % 20_000) }],
      [`devices/only-${n}`, { n }],
    ]),
  );
}

interface Child {
  /** Resolves once `count` commits were acknowledged. */
  committed(count: number): Promise<void>;
  last(): number;
  kill(): void;
  /** Resolves with "fenced", or with the exit code or signal. */
  ended(): Promise<string>;
}

/** Starts another process that commits until it is fenced or killed. */
export function startChild({ moduleUrl, argument }: StorageLocation): Child {
  const child: ChildProcess = spawn(process.execPath, [CHILD, moduleUrl, argument], {
    stdio: ["ignore", "pipe", "inherit"],
  });
  const ended = new Promise<string>((resolve) => {
    child.once("close", (code, signal) => resolve(code === 3 ? "fenced" : `${signal ?? code}`));
  });
  let last = -1;
  let count = 0;
  const waiting: { count: number; resolve: () => void }[] = [];
  createInterface({ input: child.stdout as NodeJS.ReadableStream }).on("line", (line) => {
    last = Number(line);
    count++;
    for (const each of waiting) if (each.count <= count) each.resolve();
  });
  return {
    committed: (wanted) =>
      Promise.race([
        new Promise<void>((resolve) => waiting.push({ count: wanted, resolve })),
        ended.then((how) => Promise.reject(new Error(`the writing process ended early: ${how}`))),
      ]),
    last: () => last,
    kill: () => child.kill("SIGKILL"),
    ended: () => ended,
  };
}
