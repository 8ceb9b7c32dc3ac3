import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { httpUsers } from "@diskmesh/director/testing";
import { MIB_BYTES } from "@diskmesh/domain";
import { programOnPath } from "@diskmesh/process-cpi";
import { freePort, temporaryFolder } from "@diskmesh/testkit";
import { type Browser, type CDPSession, chromium, type Page } from "playwright-core";
import { logIn } from "../browser-login.js";
import { wholeFleet } from "../mesh/fleets.js";
import { TestMesh } from "../mesh/test-mesh.js";
import { type Measurement, measurement, median } from "./measure.js";
import { stormHostId } from "./storm-agents.js";
import { storeFleet } from "./storm-fleet.js";

const HOSTS = 10_000;
const DEVICES_PER_HOST = 10;
const CHANGES = 5;
const SETTLE_MS = 10_000;
const IDLE_MS = 20_000;
const PATIENCE_MS = 120_000;
/** Maximum in ms of the time until the first paint, and of the time until a change is visible. */
const MAX_MS = 1_000;
const MAX_HEAP_MIB = 64;
const MAX_IDLE_PERCENT = 10;

/**
 * Measures how long a browser takes to show a fleet of a real registry and director, and the CPU time that it needs.
 */
export async function benchPage(report: (line: string) => void): Promise<Measurement[]> {
  const executablePath = programOnPath("chromium");
  if (executablePath === undefined) {
    report("NOT MEASURED: page_*, since chromium is not on PATH");
    return [];
  }
  report(`a registry of ${HOSTS} hosts with ${DEVICES_PER_HOST} devices each`);
  const storage = join(temporaryFolder(), "state");
  await storeFleet(storage, HOSTS, DEVICES_PER_HOST);
  const port = await freePort();
  const http = { listen: { port }, users: await httpUsers({ admin: ["bosh.admin"] }) };
  // The hosts have no agents, so their silence must not count.
  const heartbeat = { intervalMs: 10_000, timeoutMs: 3_600_000, missedUntilSuspected: 360 };
  const overrides = { director: { http }, "disk-registry": { tablet: { storage }, heartbeat } };
  await using mesh = await TestMesh.start(wholeFleet({ hosts: 0, devicesPerHost: 0, deviceSizeBytes: 0, overrides }));
  // Chromium's sandbox does not work for root, and benchmarks may run as root.
  const browser = await chromium.launch({ executablePath, args: ["--no-sandbox", "--disable-gpu"] });
  try {
    return await measuredIn(browser, `https://127.0.0.1:${port}/page`, mesh, report);
  } finally {
    await browser.close();
  }
}

async function measuredIn(
  browser: Browser,
  address: string,
  mesh: TestMesh,
  report: (line: string) => void,
): Promise<Measurement[]> {
  report("opening the page");
  const context = await browser.newContext({ ignoreHTTPSErrors: true });
  context.setDefaultTimeout(PATIENCE_MS);
  const page = await context.newPage();
  await page.goto(address);
  await logIn(page, "admin", "pw-admin");
  const openedMs = performance.now();
  await page.goto(address, { waitUntil: "domcontentloaded" });
  await shows(page, "#fleet .counts", `${(HOSTS * DEVICES_PER_HOST).toLocaleString("en")} attached`);
  const completeMs = performance.now() - openedMs;
  // The browser has cached the files, as for an operator who opens the page again.
  const [firstPaint] = await page.evaluate(() =>
    performance.getEntriesByName("first-contentful-paint").map(({ startTime }) => startTime),
  );
  if (firstPaint === undefined) throw new Error("the browser does not say when it painted");
  const changes: number[] = [];
  for (let change = 0; change < CHANGES; change++)
    changes.push(await changeMs(page, mesh, stormHostId(change * 1_999), `change ${change}`));
  report(`idle for ${IDLE_MS / 1_000} s`);
  await sleep(SETTLE_MS);
  const session = await browser.newBrowserCDPSession();
  const beforeSeconds = await cpuSeconds(session);
  await sleep(IDLE_MS);
  const idlePercent = (100 * (await cpuSeconds(session)) - 100 * beforeSeconds) / (IDLE_MS / 1_000);
  const heapMib = (await heapBytes(page)) / MIB_BYTES;
  const atMost = (name: string, value: number, unit: string, floor: number): Measurement =>
    measurement({ name, value, unit, floor, floorOf: "the most allowed", budget: { atMost: 1 } });
  return [
    atMost("page_first_paint", firstPaint, "ms", MAX_MS),
    atMost("page_change_visible", median(changes), "ms", MAX_MS),
    atMost("page_heap", heapMib, "MiB", MAX_HEAP_MIB),
    atMost("page_idle_browser_cpu", idlePercent, "% of a core", MAX_IDLE_PERCENT),
    measurement({
      name: "page_whole_fleet",
      value: completeMs,
      unit: "ms",
      floor: MAX_MS,
      floorOf: "what its first paint may take",
      budget: undefined,
    }),
  ];
}

async function shows(page: Page, selector: string, text: string): Promise<void> {
  // No function is evaluated in the page, because its content security policy forbids that.
  await page.locator(selector).filter({ hasText: text }).waitFor();
}

/**
 * Returns the time in ms from the answer to the caller of a change, which follows the commit, until the page shows the
 * change. Each change has its own reason, because hosts in the same trouble share a line that names only the first.
 */
async function changeMs(page: Page, mesh: TestMesh, hostId: string, reason: string): Promise<number> {
  const seen = shows(page, "#trouble", `marked host ${hostId} as dead`);
  await mesh.clients.registry.setHostState({ hostIds: [hostId], state: "HOST_STATE_DEAD", reason });
  const committedMs = performance.now();
  await seen;
  return performance.now() - committedMs;
}

/** Returns the CPU time in s of all processes of the browser. */
async function cpuSeconds(session: CDPSession): Promise<number> {
  const { processInfo } = await session.send("SystemInfo.getProcessInfo");
  return processInfo.reduce((sum, { cpuTime }) => sum + cpuTime, 0);
}

async function heapBytes(page: Page): Promise<number> {
  const session = await page.context().newCDPSession(page);
  await session.send("HeapProfiler.collectGarbage");
  return (await session.send("Runtime.getHeapUsage")).usedSize;
}
