import { AttachState } from "@diskmesh/api/registry";
import { AbortedError, InvalidArgumentError } from "@diskmesh/domain";
import { rejection } from "@diskmesh/domain/testing";
import { LIST_LIMITS } from "@diskmesh/rpc";
import { expect } from "chai";
import { SharedRegistry } from "./testing/shared-registry.js";

const IDS = ["d0", "d1", "d2", "d3", "d4", "d5"];

describe("lists, page by page", () => {
  const fleet = SharedRegistry.forAllTests();
  const list = (pageToken: string, change: object = {}) =>
    fleet.registry.operator.listDevices({
      hostId: "h1",
      attachState: AttachState.ATTACHED,
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

  it("changes between two pages do not change the list", async () => {
    await fleet.readyAgent("h1", IDS);
    const token = await first();
    const { operator } = fleet.registry;
    await operator.purgeDevice({ hostId: "h1", deviceId: "d2" });
    await operator.removeDevice({ hostId: "h1", deviceId: "d4", keepData: true });
    await fleet.inState("d4", AttachState.DETACHED);
    expect(await rest(token)).to.deep.equal(IDS.slice(2).map((id) => `${id} ATTACH_STATE_ATTACHED`));
    expect(await rest(await first())).to.deep.equal(["d3 ATTACH_STATE_ATTACHED", "d5 ATTACH_STATE_ATTACHED"]);
  });

  it("a disk that moves between pages is listed once, at its old place", async () => {
    await fleet.readyAgent("h1", ["d0", "d1"]);
    await fleet.readyAgent("h2", ["e0"]);
    const { operator } = fleet.registry;
    for (const diskId of ["a", "b"]) {
      await fleet.createDisk(diskId);
      await operator.publishDisk({ diskId, hostId: "h1" });
    }
    const { disks, nextPageToken } = await operator.listDisks({ hostId: "h1", pageSize: 1 });
    await operator.unpublishDisk({ diskId: "b" });
    await operator.publishDisk({ diskId: "b", hostId: "h2" });
    const after = await operator.listDisks({ hostId: "h1", pageSize: 1, pageToken: nextPageToken });
    expect([...disks, ...after.disks].map((disk) => `${disk.diskId} ${disk.publication?.hostId}`)).to.deep.equal([
      "a h1",
      "b h1",
    ]);
    expect(after.nextPageToken).to.equal("");
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

  it("a page token from before a restart gets ABORTED, and a new list works", async () => {
    await fleet.readyAgent("h1", IDS);
    const token = await first();
    await fleet.registry.process.restart();
    const error = await rejection(list(token), AbortedError, "list again without page_token");
    expect(error.retryable).to.equal(true);
    await rest(await first());
  });

  it("a page token gets ABORTED after more changes than are kept, and none when nothing changes", async () => {
    await fleet.startOwn({ tuning: { lists: { ...LIST_LIMITS, maxKeptChanges: 3 } } });
    await fleet.readyAgent("h1", IDS);
    const { operator } = fleet.registry;
    await fleet.createDisk("a");
    const label = (value: string) => operator.setDiskLabels({ diskId: "a", labels: [{ name: "n", value }] });
    const token = await first();
    expect((await list(token)).devices).to.have.length(2);
    for (const value of ["1", "2", "3", "4", "5", "6", "7", "8"]) await label(value);
    await rejection(list(token), AbortedError, "no longer keeps this list");
  });

  it("a caller with too many lists loses its own, not those of others", async () => {
    await fleet.startOwn({ tuning: { lists: { ...LIST_LIMITS, maxKeptLists: 5 } } });
    await fleet.readyAgent("h1", IDS);
    const dispatcher = fleet.registry.client("cpi-dispatcher");
    const { nextPageToken } = await dispatcher.listDevices({ pageSize: 2 });
    const tokens: string[] = [];
    for (let count = 0; count < 20; count++) tokens.push(await first());
    expect((await dispatcher.listDevices({ pageSize: 2, pageToken: nextPageToken })).devices).to.have.length(2);
    await rejection(list(tokens[0] ?? ""), AbortedError);
    expect(await rest(tokens.at(-1) ?? "")).to.have.length(4);
  });
});
