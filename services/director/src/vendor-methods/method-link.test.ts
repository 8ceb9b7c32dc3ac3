import { PermissionDeniedError } from "@diskmesh/domain";
import { expect } from "chai";
import { type MethodLink, readLink, signedLink } from "./method-link.js";

const KEY = Buffer.alloc(32, 7).toString("base64url");
const LINK: MethodLink = {
  target: { kind: "node", nodeId: "host-1" },
  method: "ipxe.boot_script",
  args: { machine: "m-1" },
  endsAtMs: 2_000,
  madeBy: "operator/alice",
};
const SIGNED = signedLink(LINK, KEY);

describe("a signed address of a vendor's method", () => {
  it("is read until its end", () => {
    expect(readLink(SIGNED, KEY, 1_999)).to.deep.equal(LINK);
    expect(() => readLink(SIGNED, KEY, 2_000)).to.throw(
      PermissionDeniedError,
      "was good until 1970-01-01T00:00:02.000Z",
    );
  });

  it("has only letters that an address needs not escape", () => {
    expect(SIGNED).to.match(/^[\w.-]+$/);
  });

  const [content = "", signature = ""] = SIGNED.split(".");
  const other = Buffer.from(JSON.stringify({ ...LINK, method: "ipxe.wipe" })).toString("base64url");
  for (const [title, text, key] of [
    ["with another content", `${other}.${signature}`, KEY],
    ["with a content cut off", `${content.slice(0, -1)}.${signature}`, KEY],
    ["without a signature", content, KEY],
    ["with an empty one", "", KEY],
    ["of another key", SIGNED, Buffer.alloc(32, 8).toString("base64url")],
    ["of a director that has signed none", SIGNED, undefined],
  ] as const)
    it(`is refused ${title}`, () => {
      expect(() => readLink(text, key, 0)).to.throw(PermissionDeniedError, "is not signed by this director");
    });
});
