import { type ChildProcess, spawn } from "node:child_process";
import { readFileSync, symlinkSync } from "node:fs";
import { delimiter, join } from "node:path";
import { eventually, freePort, leaveToVerify, skipWithout, temporaryFolder } from "@diskmesh/testkit";
import { expect } from "chai";
import { isPrinted, typedBlocks } from "./operations/document.js";
import { repositoryFolder } from "./repository-folder.js";

/** Pages in the order in which a newcomer reads them. Each begins with the mesh as the former page left it. */
const PAGES = [
  "README.md",
  "docs/tutorial/tour.md",
  "docs/tutorial/attach-and-detach.md",
  "docs/tutorial/a-vm-that-dies.md",
  "docs/guides/command-line.md",
  "docs/guides/deployments.md",
  "docs/guides/cpis.md",
  "docs/guides/local-mesh.md",
  "docs/operate/health.md",
];
const START_TIMEOUT_MS = 180_000;
/** Number of ports that the launcher needs from its base port on. */
const PORTS = 100;
const BLOCK = "@@@ block at line";

/** Types the pages' blocks of sh into bash. A following block of text is the expected output. */
describe("the pages that are typed beside npm start", function () {
  this.timeout(600_000);
  let launcher: ChildProcess;
  let folder: string;
  let basePort: number;

  before(async function () {
    leaveToVerify(this);
    for (const program of ["bash", "grpcurl", "jq", "curl"]) skipWithout(this, program);
    basePort = await freePort(PORTS);
    folder = temporaryFolder();
    symlinkSync(join(repositoryFolder, "node_modules"), join(folder, "node_modules"));
    const main = join(repositoryFolder, "deploy/local/dist/main.js");
    const args = ["--state", join(folder, ".diskmesh"), "--base-port", String(basePort)];
    launcher = spawn(process.execPath, [main, ...args], { stdio: ["ignore", "pipe", "inherit"] });
    let output = "";
    launcher.stdout?.on("data", (text: Buffer) => {
      output += text;
    });
    await eventually(() => expect(output).to.include("The mesh serves until Ctrl-C"), { timeoutMs: START_TIMEOUT_MS });
  });
  after(async () => {
    if (launcher === undefined) return;
    const ended = new Promise((resolve) => launcher.once("close", resolve));
    launcher.kill("SIGTERM");
    await ended;
  });

  for (const page of PAGES)
    it(page, async () => {
      const blocks = typedBlocks(readFileSync(join(repositoryFolder, page), "utf8"));
      expect(blocks).not.to.be.empty;
      const script = blocks.map(({ line, content }) => `echo; echo "${BLOCK} ${line}"\n${content}`);
      const { code, output } = await type([tourVariables(), ...script].join("\n"));
      expect(code, output).to.equal(0);
      const printed = output.split(`${BLOCK} `).slice(1);
      for (const [index, { line, expected }] of blocks.entries()) {
        const own = printed[index]?.replace(/^\d+\n/, "") ?? "";
        if (expected !== undefined && !isPrinted(expected, own))
          throw new Error(`${page}:${line} says that this is printed:\n${expected}\nand this was:\n${own}`);
      }
    });

  /** Returns the functions and variables that the tour defines and other pages use. */
  function tourVariables(): string {
    const [first] = typedBlocks(readFileSync(join(repositoryFolder, "docs/tutorial/tour.md"), "utf8"));
    return first?.content ?? "";
  }

  /** Types a script into bash, in the folder and with the ports of this mesh. */
  async function type(script: string): Promise<{ readonly code: number | null; readonly output: string }> {
    const here = script.replace(/127\.0\.0\.1:7(\d{3})\b/g, (_, port: string) => {
      return `127.0.0.1:${basePort + Number(port)}`;
    });
    // npx would search for updates, so it is replaced by a function.
    const head = 'set -e\nexec 2>&1\nnpx() { program=$(basename "$1"); shift; "$program" "$@"; }';
    const PATH = [join(repositoryFolder, "node_modules/.bin"), process.env.PATH].join(delimiter);
    const bash = spawn("bash", ["-c", `${head}\n${here}`], {
      cwd: folder,
      env: { ...process.env, PATH },
      stdio: ["ignore", "pipe", "inherit"],
    });
    let output = "";
    bash.stdout.setEncoding("utf8").on("data", (text: string) => {
      output += text;
    });
    const code = await new Promise<number | null>((resolve) => bash.once("close", resolve));
    return { code, output };
  }
});
