import { expect } from "chai";
import { InvalidArgumentError, NotFoundError } from "../errors.js";
import { rejection } from "./rejection.js";

describe("an expected rejection", () => {
  const missing = new NotFoundError("no disk d");
  const fail = () => {
    throw missing;
  };

  it("is the error that a promise is rejected with, or that a function throws", async () => {
    expect(await rejection(Promise.reject(missing))).to.equal(missing);
    expect(await rejection(fail, NotFoundError)).to.equal(missing);
    expect(await rejection(async () => fail(), Error, "disk d")).to.equal(missing);
    expect(await rejection(fail, NotFoundError, /^no disk .$/)).to.equal(missing);
  });

  const others: [what: string, attempt: () => Promise<Error>, says: string][] = [
    ["success", () => rejection(Promise.resolve("made")), 'succeeded with "made"'],
    [
      "another class",
      () => rejection(fail, InvalidArgumentError),
      "NotFoundError: no disk d, not with InvalidArgument",
    ],
    ["another text", () => rejection(fail, NotFoundError, "disk e"), "no disk d, not with NotFoundError disk e"],
    ["a text that does not match", () => rejection(fail, Error, /^disk/), "not with Error /^disk/"],
    ["what is no error", () => rejection(Promise.reject("text")), "failed with text"],
  ];
  for (const [what, attempt, says] of others)
    it(`is not taken from ${what}`, async () => {
      const told = await attempt().catch((error: Error) => error);
      expect(told.message).to.contain(says);
      expect(told).not.to.equal(missing);
    });
});
