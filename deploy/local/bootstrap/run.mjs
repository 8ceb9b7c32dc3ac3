import { spawn } from "node:child_process";
import { accessSync, constants } from "node:fs";
import { delimiter, join } from "node:path";
import { endGroup, endWithThis, unlessStopping } from "./process-group.mjs";

/** An error that a user can act on; printed without a stack. */
export class Failure extends Error {}

/** Thrown when a program could not be started, failed, or took too long. `output` is its output. */
export class ProgramFailure extends Failure {
  constructor(command, reason, output) {
    super(`${output.trimEnd()}\n${command} ${reason}`.trimStart());
    this.reason = reason;
    this.output = output;
  }
}

const OUTPUT_GRACE_MS = 2000;
const KILL_AFTER_MS = 5000;

/**
 * Runs a program and collects its output. Rejects with ProgramFailure when it fails, cannot be started or takes longer
 * than `timeoutMs`.
 */
export function runQuietly(file, args, { cwd, env = process.env, timeoutMs }) {
  return new Promise((resolve, reject) => {
    // Starts a process group, so that the program ends with its own children.
    const child = spawn(file, args, { cwd, env, stdio: ["ignore", "pipe", "pipe"], detached: true });
    const forget = endWithThis(child, KILL_AFTER_MS);
    let output = "";
    for (const stream of [child.stdout, child.stderr])
      stream.setEncoding("utf8").on("data", (text) => {
        output += text;
      });
    let timedOut = false;
    const timer = setTimeout(() => {
      timedOut = true;
      void endGroup(child, KILL_AFTER_MS);
    }, timeoutMs);
    const end = async (reason) => {
      clearTimeout(timer);
      await unlessStopping();
      forget();
      if (reason === undefined) resolve(output);
      else reject(new ProgramFailure([file, ...args].join(" "), reason, output));
    };
    // Does not wait for the output to close, because remaining children may keep it open.
    child.once("exit", () =>
      setTimeout(() => [child.stdout, child.stderr].map((stream) => stream.destroy()), OUTPUT_GRACE_MS).unref(),
    );
    child.once("error", (error) => end(`cannot be run: ${error.message}`));
    child.once("close", (code, signal) => {
      if (timedOut) end(`took longer than ${timeoutMs / 1000} s`);
      else end(code === 0 ? undefined : `failed (${signal ?? `exit code ${code}`})`);
    });
  });
}

export function pathFolders() {
  return (process.env.PATH ?? "").split(delimiter).filter((folder) => folder !== "");
}

export function isExecutable(file) {
  try {
    accessSync(file, constants.X_OK);
    return true;
  } catch {
    return false;
  }
}

/** Returns the path of a program on PATH, like a shell; undefined for none. */
export function findProgram(name) {
  return pathFolders()
    .map((folder) => join(folder, name))
    .find(isExecutable);
}

/** Returns the npm that runs this process, or else the one on PATH. */
export function npmCommand() {
  const path = process.env.npm_execpath ?? "";
  return /npm-cli\.c?js$/.test(path) ? [process.execPath, path] : ["npm"];
}
