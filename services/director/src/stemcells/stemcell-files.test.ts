import { existsSync, readdirSync } from "node:fs";
import { FencedError, silentLogger, UnavailableError } from "@diskmesh/domain";
import { rejection } from "@diskmesh/domain/testing";
import { openStorage, Tablet } from "@diskmesh/tablet";
import { stemcellFile, temporaryFolder } from "@diskmesh/testkit";
import { expect } from "chai";
import { type DirectorTablet, storedSchema } from "../store/stored-schema.js";
import type { StemcellManifest } from "../yaml/stemcell-manifest.js";
import { StemcellFiles } from "./stemcell-files.js";

describe("the image of an uploaded stemcell", () => {
  const folder = temporaryFolder();
  let tablet: DirectorTablet;
  let files: StemcellFiles;

  before(async () => {
    const storage = openStorage(temporaryFolder(), "director");
    tablet = await Tablet.open({ name: "director", schema: storedSchema, storage, address: "" });
    const readManifest = async (text: string): Promise<StemcellManifest> => {
      const { sha1: digest, name, version } = JSON.parse(text) as Record<"sha1" | "name" | "version", string>;
      return { name, version, digest, operatingSystem: name, formats: [], cloudProperties: {}, apiVersion: 3 };
    };
    const limits = { maxUploadBytes: 10_000, maxUnpackedBytes: 50_000, maxEntries: 4, maxConcurrentUploads: 1 };
    files = new StemcellFiles({ ...limits, folder, readManifest, tablet, log: silentLogger });
  });
  after(async () => {
    await files.close();
    await tablet.close();
  });

  async function* bytes(): AsyncGenerator<Buffer> {
    yield stemcellFile();
  }

  it("the task was certainly not started -> the image is deleted", async () => {
    const error = new FencedError("another leads");
    expect(await rejection(files.receive(bytes(), "", () => Promise.reject(error)))).to.equal(error);
    expect(readdirSync(folder)).to.deep.equal([]);
  });

  it("the task may have been started -> the image stays until a sweep that knows the tasks", async () => {
    const error = new UnavailableError("no answer", { outcome: "unknown" });
    let imagePath = "";
    const failing = files.receive(bytes(), "", ({ uploadId }) => {
      imagePath = files.imagePath(uploadId);
      return Promise.reject(error);
    });
    expect(await rejection(failing)).to.equal(error);
    expect(existsSync(imagePath)).to.equal(true);
    files.sweep();
    await files.close();
    expect(readdirSync(folder)).to.deep.equal([]);
  });
});
