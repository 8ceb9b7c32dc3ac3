import { existsSync, readFileSync, writeFileSync } from "node:fs";
import { request } from "node:http";
import { dirname, join } from "node:path";
import { expect } from "chai";
import { CsiMesh, needBlockDevices, VOLUME_BYTES } from "./csi-mesh.js";

const SIZE = `${VOLUME_BYTES / 2 ** 20}MiB`;

interface Answer {
  readonly Err: string;
  readonly Mountpoint?: string;
}

describe("volumes of Docker", () => {
  let csi: CsiMesh;

  before(async function () {
    needBlockDevices(this);
    csi = await CsiMesh.start({ hosts: 2, devicesPerHost: 4 });
  });
  after(() => csi?.[Symbol.asyncDispose]());

  /** Makes a call as dockerd does. */
  async function docker(host: number, call: string, body: object = {}): Promise<Answer> {
    const socketPath = csi.dockerSockets[host];
    return new Promise((resolve, reject) => {
      const sending = request({ socketPath, method: "POST", path: `/${call}`, agent: false }, (response) => {
        let text = "";
        response.setEncoding("utf8").on("data", (chunk: string) => {
          text += chunk;
        });
        response.on("end", () => resolve({ ...JSON.parse(text), code: response.statusCode }));
      });
      sending.once("error", reject).end(JSON.stringify(body));
    });
  }

  async function twice(host: number, call: string, body: object): Promise<string> {
    const first = await docker(host, `VolumeDriver.${call}`, body);
    expect(first, call).to.include({ code: 200, Err: "" });
    expect(await docker(host, `VolumeDriver.${call}`, body), `${call} again`).to.deep.equal(first);
    return first.Mountpoint ?? "";
  }

  async function refusal(host: number, call: string, body: object): Promise<string> {
    const { Err, ...more } = await docker(host, `VolumeDriver.${call}`, body);
    expect(more).to.deep.equal({ code: 500 });
    return Err;
  }

  it("are the same on every host, and stay mounted until their last user has left, with every call repeated", async () => {
    const Name = "data";
    expect(await docker(0, "Plugin.Activate")).to.deep.include({ Implements: ["VolumeDriver"] });
    expect(await docker(0, "VolumeDriver.Capabilities")).to.deep.include({ Capabilities: { Scope: "global" } });
    await twice(0, "Create", { Name, Opts: { size: SIZE } });
    const path = await twice(0, "Mount", { Name, ID: "a" });
    expect(await twice(0, "Mount", { Name, ID: "b" })).to.equal(path);
    writeFileSync(join(path, "file"), "kept");
    await csi.drivers[0]?.killAndStart();
    await twice(0, "Unmount", { Name, ID: "a" });
    expect(await twice(0, "Path", { Name })).to.equal(path);
    expect(readFileSync(join(path, "file"), "utf8")).to.equal("kept");
    expect(await refusal(1, "Mount", { Name, ID: "c" })).to.include(`is attached to node ${csi.nodeIds[0]}`);
    expect(await refusal(0, "Remove", { Name })).to.include("detach it first");
    await twice(0, "Unmount", { Name, ID: "b" });
    expect(await twice(0, "Path", { Name })).to.equal("");

    const moved = await twice(1, "Mount", { Name, ID: "c" });
    expect(readFileSync(join(moved, "file"), "utf8")).to.equal("kept");
    const seen = { Name, Mountpoint: moved };
    expect(await docker(1, "VolumeDriver.Get", { Name })).to.deep.include({ Volume: seen });
    expect(await docker(1, "VolumeDriver.List")).to.deep.include({ Volumes: [seen] });
    expect(await docker(0, "VolumeDriver.List")).to.deep.include({ Volumes: [{ Name, Mountpoint: "" }] });
    await twice(1, "Unmount", { Name, ID: "c" });
    await twice(1, "Remove", { Name });
    expect(await refusal(1, "Get", { Name })).to.include("does not exist");
    expect(await csi.attachments()).to.deep.equal({});
    expect([path, moved].filter((folder) => existsSync(dirname(folder)))).to.deep.equal([]);
  });

  it("are refused with an unknown option, a malformed size, or another size than before, and leave nothing", async () => {
    const create = (Opts: object) => refusal(0, "Create", { Name: "other", Opts });
    expect(await create({ colour: "red" })).to.include('parameter "colour" is unknown');
    expect(await create({ size: "10 potatoes" })).to.include("size");
    expect(await create({ diskType: "none" })).to.include("none");
    expect(await refusal(0, "Create", { Opts: {} })).to.include("no Name");
    expect(await refusal(0, "Mount", { Name: "unknown", ID: "a" })).to.include("does not exist");
    await twice(0, "Create", { Name: "other", Opts: { size: SIZE } });
    expect(await create({ size: "1GiB" })).to.include("exists with");
    await twice(0, "Remove", { Name: "other" });
    expect(await docker(0, "VolumeDriver.Paint")).to.include({ code: 404 });
  });
});
