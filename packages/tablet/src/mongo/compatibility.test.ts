import { expect } from "chai";
import { type CollectionFacts, collectionProblem, engineProblem } from "./compatibility.js";

describe("compatibility check of a server", () => {
  const engines: readonly [string, Record<string, unknown>, boolean][] = [
    ["FerretDB 1.24", { version: "7.0.42", ferretdbVersion: "v1.24.0" }, false],
    ["FerretDB 0.9", { version: "6.0.42", ferretdbVersion: "v0.9.4" }, false],
    ["a FerretDB that does not know its version", { version: "7.0.42", ferretdbVersion: "unknown" }, false],
    ["FerretDB 2", { version: "7.0.77", ferretdb: { version: "v2.5.0", package: "docker" } }, true],
    ["a preview of FerretDB 2", { version: "7.0.77", ferretdbVersion: "v2.0.0-rc.1" }, true],
    ["MongoDB 4.4", { version: "4.4.29" }, false],
    ["MongoDB 5.0", { version: "5.0.0" }, true],
    ["MongoDB 10", { version: "10.1.0-rc0" }, true],
    ["MongoDB 7", { version: "7.0.5", modules: [], gitVersion: "7809d71e84e314b497f282ea8aa06d7ded3eb205" }, true],
    ["a server that reports no version", {}, true],
  ];
  for (const [title, buildInfo, isFit] of engines) {
    it(`of ${title}: ${isFit ? "probed" : "refused by name"}`, () => {
      const unfit = engineProblem(buildInfo);
      if (isFit) expect(unfit).to.equal(undefined);
      else
        expect(unfit)
          .to.contain(JSON.stringify(buildInfo.ferretdbVersion ?? buildInfo.version))
          .and.match(/use (FerretDB 2|MongoDB 5)/);
    });
  }

  const id = { v: 2, key: { _id: 1 }, name: "_id_" };
  const plain: CollectionFacts = { type: "collection", options: {}, indexes: [id] };
  const collections: readonly [string, CollectionFacts, string | undefined][] = [
    ["plain", plain, undefined],
    ["without reported options", { indexes: [] }, undefined],
    ["with an index", { ...plain, indexes: [id, { key: { n: 1 }, name: "n_1" }] }, undefined],
    ["with a validator", { ...plain, options: { validator: { n: 1 } } }, undefined],
    ["with the simple collation", { ...plain, options: { collation: { locale: "simple" } } }, undefined],
    ["not capped", { ...plain, options: { capped: false } }, undefined],
    ["clustered", { ...plain, options: { clusteredIndex: { key: { _id: 1 }, unique: true } } }, undefined],
    ["sharded by _id", { ...plain, shardKey: { _id: 1 } }, undefined],
    ["sharded by a hash of _id", { ...plain, shardKey: { _id: "hashed" } }, undefined],
    ["capped", { ...plain, options: { capped: true, size: 4096 } }, "capped"],
    ["with a default collation", { ...plain, options: { collation: { locale: "en", strength: 2 } } }, "collation"],
    ["with a TTL index", { ...plain, indexes: [id, { name: "old", expireAfterSeconds: 0 }] }, 'index "old" deletes'],
    ["clustered, with a TTL", { ...plain, options: { expireAfterSeconds: 60 } }, "after a time"],
    ["that is a view", { type: "view", options: { viewOn: "x", pipeline: [] }, indexes: [] }, "a view"],
    ["that is a view, on a server that reports no types", { options: { viewOn: "x" }, indexes: [] }, "a view"],
    ["that is a time series", { type: "timeseries", options: { timeseries: {} }, indexes: [] }, "a time series"],
    ["sharded by something else", { ...plain, shardKey: { hostId: 1 } }, 'sharded by {"hostId":1}'],
    ["sharded by _id and more", { ...plain, shardKey: { _id: 1, n: 1 } }, "sharded by"],
  ];
  for (const [title, facts, refused] of collections) {
    it(`of a collection ${title}: ${refused === undefined ? "accepted" : "refused"}`, () => {
      const unfit = collectionProblem(facts);
      if (refused === undefined) expect(unfit).to.equal(undefined);
      else
        expect(unfit)
          .to.contain(refused)
          .and.to.match(/: (copy its documents|drop|shard it by _id)/);
    });
  }
});
