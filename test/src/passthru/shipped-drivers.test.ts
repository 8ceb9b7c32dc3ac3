import { readFileSync } from "node:fs";
import { join } from "node:path";
import { HttpMethod } from "@diskmesh/api/director";
import { UnavailableError } from "@diskmesh/domain";
import { rejection } from "@diskmesh/domain/testing";
import { SAMPLE_DRIVER } from "@diskmesh/driver/testing";
import { eventually, skipWithout } from "@diskmesh/testkit";
import { expect } from "chai";
import { repositoryFolder } from "../repository-folder.js";
import { B, NODE } from "./rows.js";
import { nodeTarget, PassthruScene } from "./scene.js";

/** A vendor's driver, loaded from a folder. */
const SHELF = { package: join(repositoryFolder, "deploy/example-driver"), settings: { slots: 60 } };

describe("vendor passthru, drivers for any host", () => {
  const scene = PassthruScene.forAllTests({
    hosts: 1,
    directorDrivers: [{ package: SAMPLE_DRIVER }, SHELF],
    agentDrivers: [
      { package: SAMPLE_DRIVER },
      { package: "@diskmesh/drivers/disk-health", settings: { everyMs: 200, thresholds: { probeLatencyMs: 0 } } },
      { package: "@diskmesh/drivers/disk-identify", settings: { blinkMs: 20 } },
      SHELF,
    ],
    methods: ["echo", "probe", "identify", "slot_of"],
  });

  const deviceId = async (): Promise<string> => {
    const { devices } = await scene.mesh.clients.registry.listDevices({ hostId: NODE });
    return devices[0]?.deviceId ?? "";
  };
  const call = async (method: string, more: object = {}) => {
    const args = { device_id: await deviceId(), ...more };
    const request = { target: nodeTarget(), method, httpMethod: HttpMethod.POST, args, wait: true };
    return (await scene.vendors.callMethod(request)).outcome;
  };

  it("disk-health probes through the agent's descriptor, and says what the host lacks", async () => {
    const probed = await eventually(() => call("probe"));
    expect(probed?.$case === "value" && probed.value.latency_ms).to.be.above(0);
    await rejection(call("smart"), UnavailableError, "is a regular file: only a block device has a drive of its own");
    await rejection(call("io_statistics"), UnavailableError, "is a regular file");
  });

  it("a device beyond a threshold is WARNING at the registry, with the reason", async () => {
    await eventually(async () => {
      const { device } = await scene.mesh.clients.registry.getDevice({ deviceId: await deviceId() });
      expect(device?.health).to.equal("HEALTH_WARNING");
      expect(device?.healthMessage).to.match(/^half of the last \d reads took more than 0 ms/);
    });
  });

  it("disk-identify lets the activity light blink, and ends", async () => {
    const outcome = await call("identify", { duration_ms: 100 });
    expect(outcome?.$case === "task" && outcome.value.state).to.equal("TASK_STATE_DONE");
    expect(outcome?.$case === "task" && JSON.parse(outcome.value.result)).to.include({ by: "activity light" });
  });

  it("a vendor's driver is loaded from a folder", async () => {
    const answer = await scene.send("GET", `${B}/slot_of`, { device_id: await deviceId() });
    expect([answer.status, answer.body]).to.deep.equal([200, '{"slot":1}']);
    expect((await scene.send("GET", "/v1/drivers/shelf/vendor_passthru/models")).body).to.equal(
      '{"models":["S24","S60"]}',
    );
  });

  it("the stock client lists and calls methods of nodes and drivers as docs/guides/drivers.md shows", async function () {
    skipWithout(this, "baremetal");
    const shown = shownCommands(readFileSync(join(repositoryFolder, "docs/guides/drivers.md"), "utf8"));
    expect(shown.map(({ command }) => command.split(" ").slice(0, 3).join(" "))).to.include.members([
      "node passthru list",
      "node passthru call",
      "driver passthru list",
      "driver passthru call",
    ]);
    for (const { command, output } of shown) {
      const { stdout, stderr } = await scene.baremetal(command.replaceAll("host-1-d1", "host-1-device-1"));
      const said = linesOf(`${stdout}${stderr}`);
      // The node under test may have more methods than the document shows.
      for (const line of linesOf(output)) expect(said, command).to.include(line);
      // Python may print warnings, so unexpected lines matter only where the document shows none.
      if (output === "") expect(linesOf(stdout), command).to.deep.equal([]);
    }
  });
});

/** Returns the client commands in the text, with their output. */
function shownCommands(text: string): { readonly command: string; readonly output: string }[] {
  return [...text.matchAll(/^\$ baremetal (.*)\n((?:[^$`].*\n)*)/gm)].map(([, command = "", output = ""]) => ({
    command,
    output,
  }));
}

/** Returns lines without table widths and durations, which differ each time. */
function linesOf(text: string): string[] {
  const rows = text.split("\n").filter((line) => line.trim() !== "" && !/^[+-]+$/.test(line));
  return rows.map((line) =>
    line
      .trim()
      .replace(/ +/g, " ")
      .replace(/\d+(\.\d+)?(, \d+(\.\d+)?)*/g, "N"),
  );
}
