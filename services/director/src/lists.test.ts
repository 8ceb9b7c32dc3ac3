import { InvalidArgumentError } from "@diskmesh/domain";
import { rejection } from "@diskmesh/domain/testing";
import { allPages } from "@diskmesh/rpc";
import { expect } from "chai";
import { TestDirector } from "./testing/test-director.js";

describe("lists of the director, page by page", () => {
  let director: TestDirector;
  before(async () => {
    director = await TestDirector.start();
    await director.deploy("web", 3);
  });
  after(() => director?.stop());

  it("instances by group and index", async () => {
    const { deployments } = director;
    const ids = (pageSize: number) =>
      allPages(async (pageToken) => {
        const { instances, nextPageToken } = await deployments.listInstances({
          deployment: "web",
          pageSize,
          pageToken,
        });
        expect(instances).to.have.length.at.most(pageSize);
        return { items: instances.map(({ group, index }) => `${group}/${index}`), nextPageToken };
      });
    expect(await ids(1))
      .to.have.length(3)
      .and.to.deep.equal(await ids(1_000));
  });

  it("versions of configs, the newest first", async () => {
    const { configs } = director;
    for (const name of ["a", "a-b"])
      for (const count of [1, 2]) await configs.updateConfig({ type: "mine", name, content: `count: ${count}` });
    const listed = (pageSize: number, allVersions: boolean) =>
      allPages(async (pageToken) => {
        const page = await configs.listConfigs({ type: "mine", allVersions, pageSize, pageToken });
        expect(page.configs).to.have.length.at.most(pageSize);
        return {
          items: page.configs.map(({ name, content }) => `${name} ${content}`),
          nextPageToken: page.nextPageToken,
        };
      });
    const all = ["a count: 2", "a count: 1", "a-b count: 2", "a-b count: 1"];
    expect(await listed(1_000, true)).to.deep.equal(all);
    expect(await listed(1, true)).to.deep.equal(all);
    expect(await listed(1, false)).to.deep.equal([all[0], all[2]]);
    const { nextPageToken: pageToken } = await configs.listConfigs({ type: "mine", pageSize: 1 });
    await rejection(configs.listConfigs({ pageToken }), InvalidArgumentError, "other filters");
    await rejection(director.locks.listLocks({ pageToken }), InvalidArgumentError, "other filters");
    await rejection(director.deployments.listInstances({ deployment: "web", pageSize: -1 }), InvalidArgumentError);
  });
});
