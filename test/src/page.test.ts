import { join } from "node:path";
import { devicesWithBytes } from "@diskmesh/api/registry";
import { MIB_BYTES } from "@diskmesh/domain";
import { programOnPath } from "@diskmesh/process-cpi";
import { eventually, leaveToVerify, skipBecause } from "@diskmesh/testkit";
import axe, { type AxeResults } from "axe-core";
import { expect } from "chai";
import { type Browser, chromium, type Page } from "playwright-core";
import { logIn } from "./browser-login.js";
import { ADMIN, wholeFleet } from "./mesh/fleets.js";
import { addHosts, deployInstances, detachDisk, devicesReady, openDisk, provideDisk } from "./mesh/steps.js";
import { TestMesh } from "./mesh/test-mesh.js";

/** Timeout in ms, longer than page and mesh take on any machine. */
const PATIENCE_MS = 120_000;
/** Folder for screenshots; undefined for none. */
const { DISKMESH_PICTURES: pictures } = process.env;

interface Widths {
  readonly scrollWidth: number;
  readonly clientWidth: number;
}

/** Runs against real processes, in a real browser. */
describe("the page in a browser", function () {
  this.timeout(600_000);
  let mesh: TestMesh;
  let browser: Browser;
  let page: Page;
  let address: string;
  let instances: string[];
  let diskCid: string;

  before(async function () {
    leaveToVerify(this);
    const executablePath = programOnPath("chromium");
    if (executablePath === undefined) skipBecause(this, "chromium is not on PATH");
    const overrides = {
      // The move of a disk takes minutes.
      "disk-registry": { moves: { bytesPerSecondOfHost: 4_096 } },
      "disk-agent": { tuning: { copy: { chunkBytes: 4_096, maxInFlight: 1, flushEveryBytes: MIB_BYTES } } },
    };
    const hosts = { hosts: 5, devicesPerHost: 4, deviceSizeBytes: MIB_BYTES };
    mesh = await TestMesh.start(wholeFleet({ ...hosts, httpUsers: ADMIN, overrides }));
    await addHosts(mesh);
    await devicesReady(mesh);
    instances = await deployInstances(mesh, 3);
    address = `https://127.0.0.1:${mesh.http().port}/page`;
    // Chromium's sandbox does not work for root, and tests may run as root.
    browser = await chromium.launch({ executablePath, args: ["--no-sandbox", "--disable-gpu"] });
    page = await opened();
  });
  after(async () => {
    await browser?.close();
    await mesh?.[Symbol.asyncDispose]();
  });

  async function opened(options: Parameters<Browser["newContext"]>[0] = {}): Promise<Page> {
    const context = await browser.newContext({ ignoreHTTPSErrors: true, ...options });
    context.setDefaultTimeout(PATIENCE_MS);
    const opening = await context.newPage();
    await opening.goto(address);
    await logIn(opening, "admin", "pw-admin");
    const complaints: string[] = [];
    opening.on("pageerror", (error) => complaints.push(error.message));
    opening.on("console", (message) => message.type() === "error" && complaints.push(message.text()));
    await opening.goto(address, { waitUntil: "domcontentloaded" });
    await opening.locator(".liveness.live").waitFor();
    expect(complaints).to.deep.equal([]);
    return opening;
  }

  const textOf = async (selector: string): Promise<string> =>
    (await page.locator(selector).allInnerTexts()).join("\n").replace(/\s+/g, " ");

  async function go(place: string): Promise<void> {
    await page.getByRole("navigation").getByRole("link", { name: place }).click();
  }

  /** Opens the panel of a host or disk from its list. */
  async function open(place: "Hosts" | "Disks", name: string): Promise<void> {
    await go(place);
    await page.locator(`#${place.toLowerCase()}`).getByRole("link", { name, exact: true }).click();
  }

  /** Follows an action from its button to its end. */
  async function act(
    label: string,
    fields: Readonly<Record<string, string>>,
    foreseen: RegExp,
    end = /Started.*task \d+ done/,
  ) {
    await page.getByRole("button", { name: `${label}…` }).click();
    for (const [field, value] of Object.entries(fields)) {
      const input = page.locator("dialog").getByLabel(field);
      if (await input.and(page.locator("select")).count()) await input.selectOption(value);
      else await input.fill(value);
    }
    const dialogs = page.locator("dialog");
    if ((await dialogs.locator("input, select").count()) > 0) await plan();
    await shows("dialog", foreseen);
    await dialogs.locator("button.does").click();
    await shows("dialog", end);
    await closeDialog();
  }

  const plan = () => page.getByRole("button", { name: "Show what will happen" }).click();
  const closeDialog = () => page.getByRole("button", { name: "Close", exact: true }).click();

  async function shows(selector: string, expected: RegExp): Promise<void> {
    await eventually(async () => expect(await textOf(selector)).to.match(expected));
  }

  it("shows a disk's present state while it is provided, moved and fenced", async () => {
    await shows("#trouble", /Nothing is stuck/);
    expect(await page.title()).to.equal("diskmesh");
    await shows("#user", /^admin$/);
    await shows("#fleet .counts", /20 devices 20 attached/);
    await go("Hosts");
    expect(await page.title()).to.equal("Hosts · diskmesh");
    await shows("#hosts tbody", /host-1 online.*host-2 online.*host-3 online/);
    await go("Disks");
    diskCid = await provideDisk(mesh, "scratch", instances[0] ?? "");
    const committedMs = Date.now();
    await shows(`#disks [data-name="${diskCid}"]`, /^scratch published host-1 1 MiB/);
    console.log(`      seen ${Date.now() - committedMs} ms after the answer to whoever waited for it`);
    await detachDisk(mesh, "scratch");
    await shows(`#disks [data-name="${diskCid}"]`, /free/);
    await provideDisk(mesh, "scratch", instances[1] ?? "");
    await shows(`#disks [data-name="${diskCid}"]`, /published host-2/);
    const client = await openDisk(mesh, "host-2", diskCid);
    await client.write(0, Buffer.alloc(8_192, 1));
    await client.disconnect();
    await go("Hosts");
    await shows("#vms tbody", /\/0 running.*\/1 running .*scratch/);
    await page.locator("#vms tbody tr").nth(1).getByRole("link").first().click();
    await shows("#detail dl", /state running.*host host-2.*agent heard.*disks scratch/);
    await shows("#detail #why", /is running/);
    const { host } = await mesh.clients.registry.getHost({ hostId: "host-2" });
    for (const name of [host?.assignment?.vmCid, instances[1]]) {
      await page.goto(`${address}#vm/${name}`);
      await shows("#detail-title", /^ ?VM work\/worker\/1/);
      await shows("#detail dl", /host host-2/);
    }

    await open("Hosts", "host-2");
    await go("Disks");
    await page.goBack();
    await shows("#detail-title", /host host-2/);
    await shows("#hosts tbody", /host-2/);
    await page.getByRole("button", { name: "Fence…" }).click();
    await page.getByRole("textbox", { name: /Why/ }).fill("its power is gone");
    await plan();
    await shows("dialog", /What will happen.*1 disk is taken from host-2.*scratch.*diskmesh fence-host host-2/);
    expect((await mesh.clients.registry.getDisk({ diskId: diskCid })).disk?.publication?.hostId).to.equal("host-2");
    await page.getByRole("button", { name: "Fence", exact: true }).click();
    await shows("dialog", /Done/);
    await closeDialog();
    await shows("#detail #states", /FenceHost.*AddHost.*HostRegistered/);
    await go("Disks");
    await shows(`#disks [data-name="${diskCid}"]`, /free/);
    await go("Overview");
    await shows(
      "#trouble",
      /disk scratch was taken from host host-2 by .*operator admin: its power is gone.*, and is not published/,
    );
    await open("Disks", "scratch");
    await shows("#detail dl", new RegExp(`^id ${diskCid} state free`));
    await shows("#detail #why", /FENCED/);
    await shows("#detail #timeline", /FenceHost host host-2 .*PublishDisk.*CreateDisk/);
    await shows("#detail dl", /health online/);
  });

  it("shows where a disk's bytes lie, and all facts of a device", async () => {
    const { disk } = await mesh.clients.registry.getDisk({ diskId: diskCid });
    const { device } = await mesh.clients.registry.getDevice({ deviceId: devicesWithBytes(disk)[0] ?? "" });
    const { deviceId, hostId, path, deviceGeneration, tabletGeneration } = device ?? {};
    await open("Disks", "scratch");
    await shows("#detail #extents", new RegExp(`0 B to 1 MiB ${deviceId} on ${hostId} attached`));
    await page
      .locator("#extents")
      .getByRole("link", { name: deviceId ?? "", exact: true })
      .click();
    const facts = `host ${hostId} path ${path} .*serial .*pool default generation ${tabletGeneration}.${deviceGeneration}`;
    await shows("#detail dl", new RegExp(`state attached health online ${facts} disk scratch`));
    await page.goto(`${address}#device/nothing`);
    await shows("#detail", /It is not there/);
  });

  it("shows the space of each pool, and charts of I/O and tasks", async () => {
    await go("Space");
    await shows("#pools tbody", /default z1 5 % 20 MiB 19 MiB 0 B \S+ MiB 19 MiB/);
    await page.locator("#pools").getByRole("link", { name: "default" }).click();
    await shows("#detail dl", /^z1 19 MiB of 20 MiB free, largest disk 19 MiB$/);
    await shows("#detail #why", /pool default/);
    await go("Overview");
    const { registry } = mesh.clients;
    await eventually(async () => expect((await registry.getIoTotals({})).totals?.writtenBytes).to.equal(8_192));
    await eventually(async () => expect(await page.locator("#activity canvas").count()).to.equal(2));
    await shows("#activity", /I\/O of all disks 0 B\/s read, \S+ B\/s written.* 4 tasks ended, 0 failed/);
    await page.getByLabel("Charts of the last").selectOption("day");
    const chart = page.getByRole("slider", { name: /^Tasks/ });
    await chart.focus();
    await page.keyboard.press("End");
    await shows("#activity .u-legend", /running:? ?0 ?queued:? ?0/);
    expect(await chart.getAttribute("aria-valuetext")).to.match(/^\d\d:\d\d: running 0, queued 0, ended per minute /);
  });

  it("filters events by object, user, action, result and time, and names what each is about", async () => {
    await go("Events");
    await shows("#events .timeline", /FenceHost disk scratch host host-2 .*operator admin: its power is gone/);
    await shows("#events .timeline", /provide dynamic_disk scratch task \d+ operator/);
    const filter = async (label: string, text: string): Promise<void> => {
      await page.locator("#events").getByLabel(label, { exact: true }).fill(text);
      await page.getByRole("button", { name: "Show", exact: true }).click();
    };
    await filter("Action", "FenceHost");
    await eventually(async () => expect(await page.locator("#events .timeline li").count()).to.equal(1));
    await filter("From", "2099-01-01T00:00");
    await shows("#events", /No such events/);
    await page.goBack();
    await shows("#events .timeline", /^ ?\S+ FenceHost/);
    await page.locator("#events").getByRole("link", { name: "scratch" }).click();
    await shows("#detail-title", /disk scratch/);
  });

  it("shows the effect of a host's removal before it begins, then why it waits, and can cancel it", async () => {
    const { disk } = await mesh.clients.registry.getDisk({ diskId: diskCid });
    const { device } = await mesh.clients.registry.getDevice({ deviceId: devicesWithBytes(disk)[0] ?? "" });
    const hostId = device?.hostId ?? "";
    const isWanted = async () => (await mesh.clients.registry.getHost({ hostId })).host?.removalRequested;
    await open("Hosts", hostId);
    await page.getByRole("button", { name: "Remove…" }).click();
    await shows("dialog", /What will happen.*is erased.*for now it waits.*holds 1 disk.*scratch/);
    expect(await isWanted()).to.equal(false);
    await page.getByRole("button", { name: "Remove", exact: true }).click();
    await shows("dialog", /Noted, and not done yet.*holds 1 disk.*scratch/);
    expect(await isWanted()).to.equal(true);
    await closeDialog();
    await shows("#hosts", new RegExp(`host ${hostId} is being removed: 4 devices`));
    await go("Overview");
    await shows("#trouble", new RegExp(`host ${hostId} is being removed: 4 devices`));
    expect(await page.title()).to.match(/^\(\d+\) diskmesh$/);
    await page.locator("#trouble").getByRole("link", { name: hostId, exact: true }).click();
    await shows("#detail dl", /removal wanted, and not done yet/);
    await shows("#detail #why", /REMOVAL_WAITS.*scratch/);
    expect(await page.locator("#detail .cure").count()).to.be.above(0);
    await act("Add again", {}, /What will happen.*stays in operation.*diskmesh add-host/, /Done/);
    await shows("#trouble", new RegExp(`^(?!.*host ${hostId} is to be removed)`));
    await shows("#detail #timeline", /add host admin/);
    await shows("#detail #timeline", /remove host admin/);
    expect(await isWanted()).to.equal(false);
  });

  it("shows that the removal of an unused host waits for its agent, and no trouble once it is out of operation", async () => {
    const { hosts } = await mesh.clients.registry.listHosts({});
    const { devices } = await mesh.clients.registry.listDevices({});
    const isUsed = (hostId: string) => devices.some((device) => device.hostId === hostId && device.diskId !== "");
    const spare = hosts.find(({ hostId, assignment }) => !assignment && !isUsed(hostId))?.hostId ?? "";
    await open("Hosts", spare);
    await act("Remove", {}, /What will happen/, new RegExp(`Done.*host ${spare} is out of operation`));
    await shows("#detail dl", /state removed .*removal it is out of operation/);
    await shows("#detail #why", /out of operation/);
    await shows("#hosts tbody", new RegExp(`${spare} removed`));
    await go("Overview");
    await shows("#fleet .counts", /5 hosts.*1 removed/);
    await shows("#fleet .counts", /4 detached/);
    await shows("#trouble", new RegExp(`^(?!.*${spare})`));
  });

  it("provides a disk for a host, limits, detaches, resizes, attaches and deletes it, each as a task that it follows", async () => {
    await open("Hosts", "host-2");
    const wanted = { "Name of the disk": "acted", Size: "1MiB" };
    await act(
      "Provide a disk",
      wanted,
      /host host-2 gets disk acted of 1 MiB.*diskmesh provide acted --host host-2 --size 1MiB/,
    );
    await open("Disks", "acted");
    await shows("#detail #io", /path \S+acted|path \S+/);
    await act(
      "Set limits",
      { "Reads per second": "100" },
      /at most 100 reads per second.*diskmesh limits acted --read-iops 100/,
    );
    await shows("#disks", /acted.*100/);
    await act("Detach", {}, /taken from host host-2.*diskmesh detach acted/);
    await act("Resize", { Size: "2MiB" }, /grows from 1 MiB to 2 MiB.*diskmesh resize acted 2MiB/);
    await act("Attach", { Host: "host-2" }, /is attached to host host-2.*diskmesh attach acted --host host-2/);
    await shows("#detail dl", /published to host-2/);
    await act("Detach", {}, /taken from host host-2/);
    await act("Delete", {}, /acted and its 2 MiB of data are deleted.*diskmesh delete acted/);
    await shows("#detail", /not there \(any more\)/);
  });

  it("shows an error of an input beside it, and not as trouble", async () => {
    await open("Hosts", "host-1");
    await page.getByRole("button", { name: "Provide a disk…" }).click();
    const [name, size] = [page.getByLabel("Name of the disk"), page.getByLabel("Size")];
    const wrong: readonly [string, string, string, RegExp][] = [
      ["fine", "0MiB", "size", /size "0MiB" is malformed: give a number with a unit/],
      ["fine", "ten", "size", /size "ten" is malformed/],
      ["n".repeat(400), "1MiB", "disk_name", /disk_name .*is/],
      ["a b", "1MiB", "disk_name", /disk_name .*is/],
    ];
    for (const [nameText, sizeText, field, message] of wrong) {
      await name.fill(nameText);
      await size.fill(sizeText);
      await plan();
      await shows(`dialog #field-${field}-note.trouble`, message);
      expect(await page.locator("dialog [aria-invalid]").count()).to.equal(1);
    }
    await page.getByRole("button", { name: "Leave it" }).click();
    await go("Overview");
    await shows("#trouble", /^(?!.*malformed)/);
  });

  it("shows the steps of a task, and retries a failed one with its own values", async () => {
    const { disks } = mesh.clients;
    await disks.provideDynamicDisk({ diskName: "again", hostId: "host-2", sizeBytes: MIB_BYTES, wait: true });
    const { task } = await disks.resizeDynamicDisk({ diskName: "again", sizeBytes: 4_096 * MIB_BYTES, wait: false });
    await go("Tasks");
    await page
      .locator("#tasks")
      .getByRole("link", { name: String(task?.taskId), exact: true })
      .click();
    await shows("#detail dl", /state error/);
    await shows("#steps", /Resizing disk: again to \S+ .*error/);
    await page.getByRole("button", { name: "Retry…" }).click();
    const size = page.locator("dialog").getByLabel("Size");
    expect(await size.inputValue()).to.equal("4096MiB");
    await size.fill("2MiB");
    await plan();
    await shows("dialog", /grows from 1 MiB to 2 MiB/);
    await page.getByRole("button", { name: "Leave it" }).click();
  });

  it("shows a service's address, version and days of its certificate", async () => {
    await go("Overview");
    for (const name of ["director", "disk-registry"]) {
      await page.locator("#sources").getByRole("link", { name, exact: true }).click();
      await shows(
        "#detail",
        new RegExp(`address \\S+:\\d+ the ${name} .* serves, leads, .* version .* valid for \\d+ days`),
      );
    }
  });

  it("cordons a host, which says so, and opens it again", async () => {
    await open("Hosts", "host-3");
    await act("Cordon", { Why: "new firmware" }, /What will happen.*gets no new disk and no new VM/, /Done/);
    await shows("#hosts tbody", /host-3 cordoned/);
    await shows("#detail #why", /CORDONED.*operator admin: new firmware.*open the host again/);
    await act("Mark as online", {}, /What will happen/, /Done/);
    await shows("#hosts tbody", /host-3 online/);
  });

  it("announces work on a host, which its journal tells", async () => {
    await open("Hosts", "host-5");
    const fields = { "For at most": "30m", Why: "new memory" };
    await act(
      "Maintenance",
      fields,
      /its silence is no trouble.*diskmesh maintenance host-5 --for 30m --reason/,
      /Done/,
    );
    await shows("#detail dl", /maintenance until \d/);
    await page.locator("#journal summary").click();
    await shows("#journal", /director: SetHostState.*maintenance reason none -> .*new memory/);
    await shows("#journal", /All changes since the registry's store was made are kept/);
    await act("Mark as online", {}, /What will happen/, /Done/);
    await shows("#hosts tbody", /host-5 online/);
  });

  it("tells of a size without room before it is sent", async () => {
    await open("Hosts", "host-2");
    await page.getByRole("button", { name: "Provide a disk…" }).click();
    await page.getByLabel("Name of the disk").fill("huge");
    await page.getByLabel("Size").fill("10TiB");
    await plan();
    await shows("dialog", /would fail now with NO_SPACE: the largest disk that fits .* is \d/);
    await page.getByRole("button", { name: "Leave it" }).click();
  });

  it("shows the copies of a disk that moves and the progress, dark and light, and cancels the move", async () => {
    const { registry } = mesh.clients;
    const { disk } = await registry.getDisk({ diskId: diskCid });
    const [source = ""] = devicesWithBytes(disk);
    const { hosts } = await registry.listHosts({});
    const isSource = (hostId: string) => disk?.parts[0]?.copies[0]?.hostId === hostId;
    const target = hosts.find(({ hostId, removalRequested }) => !isSource(hostId) && !removalRequested)?.hostId ?? "";
    await registry.setHostState({ hostIds: [target], state: "HOST_STATE_CORDONED", reason: "not yet" });
    await open("Disks", "scratch");
    const plans = new RegExp(
      `1 part of disk scratch moves to devices of host ${target}.*diskmesh migrate-disk scratch ${target}`,
    );
    await act("Migrate", { Host: target }, plans, /Done/);
    await shows("#extents .move", /^its move waits for /);
    await registry.setHostState({ hostIds: [target], state: "HOST_STATE_ONLINE" });
    await shows("#extents", new RegExp(`0 B to 1 MiB ${source} on \\S+ attached counts \\S+ on \\S+ attached copying`));
    await shows("#extents .move", /^[\d.]+ KiB of 1 MiB copied, [\d.]+ K?i?B\/s, about \d+ min left$/);
    for (const colorScheme of ["light", "dark"] as const) {
      const seen = await opened({ colorScheme, viewport: { width: 390, height: 900 } });
      await seen.goto(`${address}#disk/${diskCid}`);
      const progress = seen.getByRole("progressbar", { name: "Move of 0 B to 1 MiB" });
      await progress.waitFor();
      expect(await progress.getAttribute("aria-valuetext")).to.match(/ of 1 MiB copied/);
      expect(Number(await progress.getAttribute("value"))).to.be.within(1, MIB_BYTES - 1);
      expect(await progress.getAttribute("max")).to.equal(String(MIB_BYTES));
      await picture(seen, `move-${colorScheme}`);
      expect(await findings(seen), `move ${colorScheme}`).to.deep.equal([]);
      await seen.context().close();
    }
    await page.getByRole("button", { name: "Cancel the move…" }).click();
    await shows("dialog", /What will happen 1 part of disk \S+ will not move.*diskmesh cancel-move scratch/);
    expect((await registry.getDisk({ diskId: diskCid })).disk?.parts[0]?.move).to.not.equal(undefined);
    await page.getByRole("button", { name: "Cancel the move", exact: true }).click();
    await shows("dialog", /Done/);
    await closeDialog();
    await shows("#extents", new RegExp(`0 B to 1 MiB ${source} on \\S+ attached$`));
    await shows("#detail #timeline", /cancel move .*admin/);
    await eventually(async () =>
      expect(await page.getByRole("button", { name: "Cancel the move…" }).count()).to.equal(0),
    );
  });

  it("shows on top that the registry is away, and is live again when it is back, even without a change", async () => {
    await go("Overview");
    await mesh.process("disk-registry").kill();
    await shows("#trouble", /service disk-registry shown is what it said last/);
    await shows("#sources", /disk-registry silent/);
    await mesh.process("disk-registry").start();
    await shows("#sources", /disk-registry live/);
    await shows("#trouble", /^(?!.*disk-registry)/);
  });

  it("passes axe without a finding, dark and light, wide and narrow, and works by keyboard alone", async () => {
    for (const colorScheme of ["light", "dark"] as const)
      for (const width of [1_440, 390]) {
        const seen = await opened({ colorScheme, viewport: { width, height: 900 } });
        await seen.goto(`${address}#hosts`);
        await seen.locator("#hosts tbody tr").first().waitFor();
        const vm = (await seen.locator("#vms tbody tr").first().getAttribute("data-name")) ?? "";
        const device = devicesWithBytes((await mesh.clients.registry.getDisk({ diskId: diskCid })).disk)[0] ?? "";
        const views = { disk: diskCid, device, host: "host-1", vm, task: "1", cpi: "fleet", source: "director" };
        // Contrast depends on the theme and layout on the width, so two of the four have all that axe can find.
        const isJudged = (colorScheme === "light") === (width === 1_440);
        const judge = async (view: string): Promise<void> => {
          await picture(seen, `${view}-${colorScheme}-${width}`);
          if (isJudged) expect(await findings(seen), `${view} ${colorScheme} ${width}`).to.deep.equal([]);
        };
        for (const place of ["overview", "hosts", "disks", "tasks", "space"]) {
          await seen.goto(`${address}#${place}`);
          await seen.locator("main section").first().waitFor();
          await judge(place);
          const { scrollWidth, clientWidth } = await seen.evaluate<Widths>(
            "(({ scrollWidth, clientWidth }) => ({ scrollWidth, clientWidth }))(document.documentElement)",
          );
          expect(scrollWidth, `${place} at ${width}`).to.equal(clientWidth);
        }
        for (const [view, name] of Object.entries(views)) {
          await seen.goto(`${address}#${view}/${encodeURIComponent(name)}`);
          await seen.locator("#detail dl").first().waitFor();
          if (view !== "cpi" && view !== "source") await seen.locator("#detail #why p").first().waitFor();
          await judge(view);
        }
        await seen.goto(`${address}#events`);
        await seen.locator("#events .timeline li").first().waitFor();
        await judge("events");
        await seen.getByRole("link", { name: "Docs", exact: true }).click();
        await seen.getByText("# Documentation").waitFor();
        await seen.goto(`${address}#host/host-1`);
        await seen.getByRole("button", { name: "Remove…" }).click();
        await seen.locator("dialog h3").waitFor();
        await judge("dialog");
        await seen.context().close();
      }
    await go("Overview");
    await page.locator(".map canvas").focus();
    await page.keyboard.press("ArrowRight");
    await page.keyboard.press("ArrowRight");
    await shows("#map-cursor", /^host-2, online/);
    await page.keyboard.press("Enter");
    await shows("#detail-title", /host host-2/);
  });

  it("shows that it is not live while the director is away, and the present state once it is back", async () => {
    await mesh.process("director").kill();
    await shows(".liveness", /Not live: this is as of/);
    await page.goto(`${address}#host/host-1`);
    await shows("#detail #why", /The director does not answer/);
    await mesh.clients.registry.setHostState({ hostIds: ["host-3"], state: "HOST_STATE_DEAD", reason: "burnt" });
    await page.goto(`${address}#events`);
    await shows("#events", /The director does not answer/);
    await mesh.process("director").start();
    await shows(".liveness", /^ ?live$/);
    await shows("#events .timeline", /SetHostState/);
    await go("Hosts");
    await shows("#hosts tbody", /host-3 dead/);
  });

  it("shows that it is not live while the director hangs, and is live again afterwards", async () => {
    mesh.process("director").signal("SIGSTOP");
    try {
      await page.waitForRequest(/\/page\/self$/);
      await shows(".liveness", /Not live: this is as of/);
    } finally {
      mesh.process("director").signal("SIGCONT");
    }
    await shows(".liveness", /^ ?live$/);
  });

  async function findings(seen: Page): Promise<string[]> {
    if ((await seen.evaluate("typeof axe")) === "undefined") await seen.evaluate(axe.source);
    const { violations } = (await seen.evaluate("axe.run({ resultTypes: ['violations'] })")) as AxeResults;
    return violations.map(({ id, nodes }) => `${id}: ${nodes.map(({ html }) => html).join(" ")}`);
  }

  async function picture(seen: Page, name: string): Promise<void> {
    if (pictures) await seen.screenshot({ path: join(pictures, `${name}.png`), fullPage: true });
  }
});
