import { AdminServiceDefinition } from "@diskmesh/api/common";
import { AttachState, Health, HostState } from "@diskmesh/api/registry";
import { InvalidArgumentError } from "@diskmesh/domain";
import { rejection } from "@diskmesh/domain/testing";
import { allPages } from "@diskmesh/rpc";
import { expect } from "chai";
import { SharedRegistry } from "./testing/shared-registry.js";

const IDS = ["d0", "d1", "d2", "d3", "d4", "d5"];

describe("lists, page by page", () => {
  const fleet = SharedRegistry.forAllTests();
  const list = (pageToken: string, change: object = {}) =>
    fleet.registry.operator.listDevices({
      hostId: "h1",
      attachState: AttachState.ATTACHED,
      pool: "default",
      pageSize: 2,
      pageToken,
      ...change,
    });
  const rest = async (pageToken: string): Promise<string[]> => {
    const ids: string[] = [];
    for (let token = pageToken; token !== ""; ) {
      const page = await list(token);
      for (const { deviceId, attachState } of page.devices) ids.push(`${deviceId} ${attachState}`);
      token = page.nextPageToken;
    }
    return ids;
  };
  const first = async (change: object = {}) => (await list("", change)).nextPageToken;

  it("changes between two pages are on the pages to come, and nothing that stays is missing", async () => {
    await fleet.readyAgent("h1", IDS);
    await fleet.readyAgent("h2", ["e1"]);
    const token = await first();
    const { operator } = fleet.registry;
    expect((await operator.listHosts({ az: "z9" })).hosts).to.deep.equal([]);
    await operator.purgeDevice({ hostId: "h1", deviceId: "d2" });
    await operator.purgeDevice({ hostId: "h1", deviceId: "d1" });
    await operator.removeDevice({ hostId: "h1", deviceId: "d4", keepData: true });
    await fleet.inState("d4", AttachState.DETACHED);
    expect(await rest(token)).to.deep.equal(["d3 ATTACH_STATE_ATTACHED", "d5 ATTACH_STATE_ATTACHED"]);
  });

  it("a page token with other filters, or of another list, gets INVALID_ARGUMENT, and the list continues", async () => {
    await fleet.readyAgent("h1", IDS);
    const token = await first();
    await rejection(list(token, { attachState: AttachState.UNSPECIFIED }), InvalidArgumentError, "other filters");
    await rejection(fleet.registry.operator.listHosts({ pageToken: token }), InvalidArgumentError, "other filters");
    const pageOfThree = await list(token, { pageSize: 3 });
    expect(pageOfThree.devices.map((device) => device.deviceId)).to.deep.equal(["d2", "d3", "d4"]);
    // Requests the same page again, as after a lost answer.
    expect((await list(token)).devices.map((device) => device.deviceId)).to.deep.equal(["d2", "d3"]);
  });

  it("a page token from before a restart continues the list", async () => {
    await fleet.readyAgent("h1", IDS);
    const token = await first();
    await fleet.registry.process.restart();
    await fleet.inState("d5", AttachState.ATTACHED);
    expect(await rest(token)).to.have.length(4);
  });

  it("troubles of hosts and devices are complete, one by one, too", async () => {
    await fleet.readyAgent("h1", IDS);
    await fleet.readyAgent("h2", ["e1"]);
    const { operator } = fleet.registry;
    const admin = fleet.registry.operatorOf(AdminServiceDefinition);
    await operator.setHostState({ hostIds: ["h1", "h2"], state: HostState.DEAD, reason: "a test" });
    await operator.setDeviceState({ deviceIds: ["d1", "d4"], health: Health.ERROR, reason: "a test" });
    const troubles = (pageSize: number) =>
      allPages(async (pageToken) => {
        const { objects, nextPageToken } = await admin.listTroubles({ pageSize, pageToken });
        expect(objects).to.have.length.at.most(pageSize);
        return { items: objects.map(({ subject }) => `${subject?.kind} ${subject?.name}`), nextPageToken };
      });
    const all = await troubles(1_000);
    expect(all).to.include.members(["SUBJECT_KIND_HOST h1", "SUBJECT_KIND_HOST h2", "SUBJECT_KIND_DEVICE d4"]);
    expect(await troubles(1)).to.deep.equal(all);
    await rejection(admin.listTroubles({ pageToken: await first() }), InvalidArgumentError, "other filters");
  });
});
