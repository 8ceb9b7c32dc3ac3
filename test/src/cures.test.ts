import type { ExplainResponse } from "@diskmesh/api/common";
import { type HttpClient, typeBosh } from "@diskmesh/director/testing";
import { MIB_BYTES } from "@diskmesh/domain";
import { eventually, leaveToVerify, skipBecause } from "@diskmesh/testkit";
import { expect } from "chai";
import { DIRECTOR_TROUBLES } from "./cures/director-troubles.js";
import { FLEET_TROUBLES, SPARE_POOL } from "./cures/fleet-troubles.js";
import { withReboots } from "./cures/reboots.js";
import { ADMIN, wholeFleet } from "./mesh/fleets.js";
import { addHosts, changeDevices, devicesReady } from "./mesh/steps.js";
import { TestMesh } from "./mesh/test-mesh.js";
import { done } from "./mesh/typed-lines.js";

/** Exit codes of a command that is done, or accepted and not done yet. */
const EXIT_CODES = [0, 4];
/** Hosts that are added from the beginning. Troubles happen on host-4. */
const ADDED = ["host-1", "host-2", "host-3"];

describe("the cures that why offers", () => {
  let mesh: TestMesh;

  let http: HttpClient;

  before(async function () {
    leaveToVerify(this);
    const plan = wholeFleet({
      ...{ hosts: 4, devicesPerHost: 2, deviceSizeBytes: MIB_BYTES },
      httpUsers: ADMIN,
      overrides: { "disk-registry": { unavailableRemovalTimeoutMs: 1_000 } },
    });
    mesh = await TestMesh.start(withReboots(plan));
    http = mesh.http();
    for (const hostId of ["host-3", "host-4"])
      await changeDevices(mesh, hostId, (devices) =>
        devices.map((device, index) => (index === 0 ? device : { ...device, pool: SPARE_POOL })),
      );
    const added = { clients: mesh.clients, hostIds: ADDED };
    await addHosts(added);
    await devicesReady(added);
  });
  after(() => mesh?.[Symbol.asyncDispose]());

  /** Types a command into diskmesh or the stock bosh CLI. */
  async function type(command: string): Promise<void> {
    if (command.startsWith("bosh ")) return typeBosh(http, command);
    const { code, out, err } = await mesh.typed(...command.split(" ").slice(1));
    expect(EXIT_CODES, `${command}: ${out}${err}`).to.include(code);
  }

  for (const trouble of [...FLEET_TROUBLES, ...DIRECTOR_TROUBLES]) {
    const { title, problem, make, asked, reason, cure, meanwhile, gone, after } = trouble;
    it(`${title}: ${cure.source} ends ${reason}`, async function () {
      const why = problem?.();
      if (why !== undefined) skipBecause(this, why);
      await make(mesh);
      const subject = typeof asked === "function" ? await asked(mesh) : asked;
      const causes = async () => {
        const answer = await done(mesh, `why ${subject.join(" ")} --json`);
        return (JSON.parse(answer) as ExplainResponse).causes.filter((each) => each.reason === reason);
      };
      const command = await eventually(async () => {
        const shown = await causes();
        const offered = shown.flatMap(({ message, cures }) => [...cures.map((each) => each.command), message]);
        const text = offered.find((each) => cure.test(each));
        if (text === undefined) throw new Error(`no cure ${cure} among ${JSON.stringify(shown)}`);
        return /(?:diskmesh|bosh) [^,;:`]+/.exec(text)?.[0] ?? "";
      });
      await Promise.all([type(command), meanwhile?.(mesh)]);
      await eventually(async () => (gone === undefined ? expect(await causes()).to.be.empty : gone(mesh)));
      await after?.(mesh);
    });
  }

  it("a host leaves with what is on its devices, by the command that the page shows", async () => {
    await done(mesh, "remove-host host-4 --keep-data");
    expect(await done(mesh, "remove-host host-4 --keep-data --wait")).to.match(/is out of operation/);
    await done(mesh, "add-host host-4 --wait");
  });
});
