import { mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { PassThrough } from "node:stream";
import { runCommandLine } from "@diskmesh/cli";
import { MIB_BYTES } from "@diskmesh/domain";
import { programOnPath } from "@diskmesh/process-cpi";
import { eventually } from "@diskmesh/testkit";
import { type Browser, chromium } from "playwright-core";
import { logIn } from "../browser-login.js";
import { ADMIN, wholeFleet } from "../mesh/fleets.js";
import { addHosts, deployInstances, devicesReady, provideDisk } from "../mesh/steps.js";
import { TestMesh } from "../mesh/test-mesh.js";
import { repositoryFolder } from "../repository-folder.js";
import { terminalPicture } from "./terminal.js";

const PATIENCE = { timeoutMs: 60_000 };
const VIEWPORT = { width: 1_200, height: 720 };
const FOLDER = join(repositoryFolder, "docs/pictures");
/** Hosts in trouble: the removal of the first waits for a disk in use, and the agent of the second is dead. */
const [LEAVING, SILENT] = ["host-1", "host-2"];

/** Times are replaced, because nothing else differs between runs. */
const TIMES = /\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ/g;
const TIME_SHOWN = "2026-01-01T03:00:00Z";

/** Causes some troubles in the mesh, which page and command then show. */
async function story(mesh: TestMesh): Promise<void> {
  await addHosts(mesh);
  await devicesReady(mesh);
  const instances = await deployInstances(mesh, mesh.hostIds.length - 2);
  for (const [index, name] of ["builds", "cache", "scratch"].entries())
    await provideDisk(mesh, name, instances[index] ?? "");
  await mesh.clients.registry.removeHost({ hostId: LEAVING });
  await mesh.process(SILENT).kill();
  await eventually(async () => {
    const { host } = await mesh.clients.registry.getHost({ hostId: SILENT });
    if (host?.state !== "HOST_STATE_UNAVAILABLE") throw new Error(`${SILENT} is ${host?.state}`);
  }, PATIENCE);
}

async function picturesOfPage(browser: Browser, address: string): Promise<void> {
  for (const colorScheme of ["light", "dark"] as const) {
    const context = await browser.newContext({ ignoreHTTPSErrors: true, colorScheme, viewport: VIEWPORT });
    context.setDefaultTimeout(PATIENCE.timeoutMs);
    const page = await context.newPage();
    await page.goto(address);
    await logIn(page, "admin", "pw-admin");
    await page.locator("#trouble li").nth(1).waitFor();
    await page.locator("#trouble").getByRole("link", { name: LEAVING, exact: true }).click();
    await page.locator("#detail .cure").first().waitFor();
    await page.screenshot({ path: join(FOLDER, `page-${colorScheme}.png`) });
    await context.close();
  }
}

/** Returns the typed line, and its output on a terminal. */
async function printed(mesh: TestMesh, line: string): Promise<readonly [string, string]> {
  const [out, err] = [Object.assign(new PassThrough(), { isTTY: true }), new PassThrough()];
  const environment = { TERM: "xterm", ...mesh.commandEnvironment };
  const signal = new AbortController().signal;
  await runCommandLine(line.split(" "), { out, err, environment, workingFolder: mesh.folder, signal });
  return [`diskmesh ${line}`, String(out.read() ?? "").replace(TIMES, TIME_SHOWN)];
}

async function main(): Promise<void> {
  const executablePath = programOnPath("chromium");
  if (executablePath === undefined) throw new Error("chromium is not on PATH: install it (Debian package `chromium`)");
  mkdirSync(FOLDER, { recursive: true });
  await using mesh = await TestMesh.start(
    wholeFleet({
      hosts: 6,
      devicesPerHost: 4,
      deviceSizeBytes: MIB_BYTES,
      httpUsers: ADMIN,
    }),
  );
  await story(mesh);
  // Chromium's sandbox does not work for root, the user in containers.
  const browser = await chromium.launch({
    executablePath,
    args: ["--no-sandbox", "--disable-gpu", "--disable-lcd-text"],
  });
  try {
    await picturesOfPage(browser, `https://127.0.0.1:${mesh.http().port}/page`);
  } finally {
    await browser.close();
  }
  const typed = [await printed(mesh, "hosts"), await printed(mesh, `why host ${LEAVING}`)];
  const picture = terminalPicture("diskmesh hosts, and why a host waits", typed);
  if (/127\.0\.0\.1|:\d{4,5}\b/.test(picture)) throw new Error(`an address is in the picture:\n${picture}`);
  writeFileSync(join(FOLDER, "terminal.svg"), picture);
}

await main();
