import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { lastRelease } from "./last-release.mjs";
import { Failure, ProgramFailure, runQuietly } from "./run.mjs";

// Number of earlier versions to compare with. A push may bring several commits, and a comparison with the last commit
// alone would miss breaks in the others.
const VERSIONS = 8;
const TIMEOUT_MS = 60_000;
const DELIBERATE = "proto/deliberate-breaks.json";

/**
 * Compares proto/ with the last release and with later versions: code that was generated from any of them must go on
 * compiling and be wire-compatible. proto/deliberate-breaks.json lists intended breaks with their reasons. Prints a
 * note when there is no git history.
 */
export async function checkBreaks(root) {
  const git = (...args) => runQuietly("git", args, { cwd: root, timeoutMs: TIMEOUT_MS });
  const problem = await problemOfHistory(git);
  if (problem !== undefined) {
    process.stderr.write(`NOT CHECKED whether the protos break a caller: ${problem}\n`);
    return;
  }
  const versions = await versionsOf(root, git);
  const folder = mkdtempSync(join(tmpdir(), "diskmesh-protos-"));
  try {
    const breaks = await Promise.all(
      versions.map(async (version) => {
        const archive = join(folder, `${version}.tar`);
        await git("archive", `--output=${archive}`, version, "proto");
        return (await breaksSince(root, archive)).map((one) => ({ ...one, version }));
      }),
    );
    report(breaks.flat(), deliberateBreaks(root));
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}

/**
 * Resolves to the reason why git history is missing, e.g. in an archive of the sources or a shallow clone; undefined
 * when it exists.
 */
async function problemOfHistory(git) {
  const isShallow = await git("rev-parse", "--is-shallow-repository").catch((error) => error);
  if (isShallow instanceof Error) return isShallow.message;
  if (isShallow.trim() === "false") return undefined;
  return "a shallow clone lacks the versions to compare proto/ with: run `git fetch --unshallow`";
}

async function versionsOf(root, git) {
  const released = lastRelease(root)?.commit;
  const range = released === undefined ? "HEAD" : `${released}..HEAD`;
  const log = await git("log", "--first-parent", `--max-count=${VERSIONS}`, "--format=%H", range, "--", "proto");
  const versions = log.split("\n").filter((line) => line !== "");
  if (released !== undefined) versions.push(released);
  if (versions.length === 0) throw new Failure("the history has no version to compare proto/ with");
  return versions;
}

async function breaksSince(root, archive) {
  const buf = join(root, "node_modules/@bufbuild/buf/bin/buf");
  const args = [buf, "breaking", "proto", "--against", `${archive}#subdir=proto`, "--error-format=json"];
  try {
    await runQuietly(process.execPath, args, { cwd: root, timeoutMs: TIMEOUT_MS });
    return [];
  } catch (error) {
    const lines = error instanceof ProgramFailure ? error.output.split("\n").filter((line) => line !== "") : [];
    if (lines.length === 0 || !lines.every((line) => line.startsWith("{"))) throw error;
    // Removes the links to documentation from buf's messages.
    return lines
      .map((line) => JSON.parse(line))
      .map(({ path, message }) => ({ path, message: message.replace(/ See https:.*/, "") }));
  }
}

function deliberateBreaks(root) {
  const listed = JSON.parse(readFileSync(join(root, DELIBERATE), "utf8"));
  const unexplained = listed.find(({ path, message, reason }) => !path || !message || !reason);
  if (unexplained) throw new Failure(`${DELIBERATE}: an entry lacks its path, message or reason`);
  return new Set(listed.map(({ path, message }) => `${path}: ${message}`));
}

function report(breaks, deliberate) {
  const found = new Map(breaks.map(({ path, message, version }) => [`${path}: ${message}`, version]));
  const wrong = [...found].filter(([text]) => !deliberate.has(text));
  if (wrong.length > 0)
    throw new Failure(
      `${wrong.map(([text, version]) => `${text} (since ${version.slice(0, 12)})`).join("\n")}
what was built with these protos before would break: keep the old name, type and place, or name the break in ${DELIBERATE}`,
    );
}
