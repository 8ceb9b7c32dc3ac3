import { execFile } from "node:child_process";
import { cpSync, mkdirSync, readFileSync, symlinkSync } from "node:fs";
import { join } from "node:path";
import { promisify } from "node:util";
import { messageOf } from "@diskmesh/domain";
import { skipBecause, skipWithout } from "@diskmesh/testkit";
import type { Context } from "mocha";
import { pythonOf } from "../python-of.js";
import { repositoryFolder } from "../repository-folder.js";

const run = promisify(execFile);

const PUBLIC = ["common", "cpi", "director", "registry"];
const PROTOS = join(repositoryFolder, "proto");
const SOURCES = join(repositoryFolder, "test/src/foreign-clients");
const PAGE = "docs/guides/clients.md";
const GRPC_TOOLS = "python-grpc-tools-protoc";
/** Build timeout. A cold build of grpc-go takes a minute on two idle cores, and eight times as long on busy ones. */
export const BUILD_TIMEOUT_MS = 15 * 60_000;
const DOWNLOAD_TIMEOUT_MS = 2 * 60_000;

/** A program with its first arguments and its environment. */
export interface Program {
  readonly command: readonly [string, ...string[]];
  readonly env?: Readonly<Record<string, string>>;
}

/** The clients of one language. */
export interface Programs {
  /** Makes a few calls, and prints the answers as JSON. */
  readonly client: Program;
  /** Follows the devices of a registry until its standard input ends. */
  readonly follow: Program;
}

/** Generates and builds the clients of a language in an empty folder; skips the test where the language is missing. */
export type Build = (test: Context, folder: string) => Promise<Programs>;

export const LANGUAGES: Readonly<Record<"Go" | "Python" | "Java", Build>> = {
  Go: async (test, folder) => {
    skipWithout(test, "go");
    for (const name of ["go.mod", "go.sum", "main.go", "follow"])
      cpSync(join(SOURCES, name), join(folder, name), { recursive: true });
    const go = (...args: string[]) => run("go", ["-C", folder, ...args], { timeout: BUILD_TIMEOUT_MS });
    await run("go", ["-C", folder, "mod", "download"], { timeout: DOWNLOAD_TIMEOUT_MS }).catch((error) =>
      skipBecause(test, `the Go modules of the client cannot be had: ${messageOf(error)}`),
    );
    const plugins = ["protoc-gen-go", "protoc-gen-go-grpc"].map((name) => ({
      local: ["go", "-C", folder, "tool", name],
      out: folder,
      opt: "module=diskmesh",
    }));
    const buf = join(repositoryFolder, "node_modules/@bufbuild/buf/bin/buf");
    const paths = PUBLIC.flatMap((name) => ["--path", join(PROTOS, "diskmesh", name)]);
    const template = JSON.stringify({ version: "v2", plugins });
    await run(process.execPath, [buf, "generate", PROTOS, "--template", template, ...paths]);
    const built = join(folder, "built");
    await go("build", "-o", `${built}/`, ".", "./follow");
    return { client: { command: [join(built, "diskmesh")] }, follow: { command: [join(built, "follow")] } };
  },

  Python: async (test, folder) => {
    skipWithout(test, GRPC_TOOLS);
    const python = pythonOf(GRPC_TOOLS);
    await type("Python", folder, `pip() { :; }; python3() { "${python}" "$@"; }`);
    const env = { PYTHONPATH: join(folder, "gen") };
    return {
      client: { command: [python, join(SOURCES, "client.py")], env },
      follow: { command: [python, join(SOURCES, "follow.py")], env },
    };
  },

  Java: async (test, folder) => {
    for (const program of ["javac", "mvn"]) skipWithout(test, program);
    await type("Java", folder, 'mvn() { command mvn --batch-mode --quiet "$@"; }').catch((error) => {
      const said = `${messageOf(error)} ${error.stdout}`;
      // Other failures are of the protos or of the client.
      if (!/[Uu]nable to resolve|[Cc]ould not (resolve|transfer|find artifact)|offline/.test(said)) throw error;
      skipBecause(test, `the Maven artifacts of the client cannot be had: ${said}`);
    });
    const target = join(folder, "client/target");
    const java = ["java", "-cp", `${target}/classes:${target}/dependency/*`] as const;
    return { client: { command: [...java, "Client"] }, follow: { command: [...java, "Follow"] } };
  },
};

/** Types the commands of a language's section of the page, but those that call a mesh, where proto/ and the clients are. */
async function type(language: string, folder: string, functions: string): Promise<void> {
  const page = readFileSync(join(repositoryFolder, PAGE), "utf8");
  const [, block = ""] =
    new RegExp(`^### ${language}\n(?:(?!###).*\n)*?\`\`\`console\n([^\`]*)\`\`\``, "m").exec(page) ?? [];
  const commands = block.split(/^\$ /m).filter((command) => command !== "" && !command.includes("REGISTRY"));
  if (commands.length === 0) throw new Error(`${PAGE} has no commands for ${language}`);
  symlinkSync(PROTOS, join(folder, "proto"));
  mkdirSync(join(folder, "test/src"), { recursive: true });
  symlinkSync(SOURCES, join(folder, "test/src/foreign-clients"));
  const script = ["set -e", functions, ...commands].join("\n");
  await run("bash", ["-c", script], { cwd: folder, timeout: BUILD_TIMEOUT_MS });
}
