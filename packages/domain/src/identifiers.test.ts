import { expect } from "chai";
import { InvalidArgumentError } from "./errors.js";
import { MAX_ID_LENGTH_BYTES, parseHostId, parseName, parseOptionalName, quoted } from "./identifiers.js";

describe("identifiers", () => {
  const malformed = [
    "",
    "../x",
    "..",
    ".",
    "a/b",
    "a.b",
    "-a",
    "_a",
    "a b",
    "a\0b",
    "ä",
    "a\n",
    "x".repeat(10 * 1024),
    "a*",
    "a>",
  ];
  for (const value of malformed)
    it(`host id ${quoted(value)} is refused with the field's name`, () => {
      expect(() => parseHostId(value)).to.throw(InvalidArgumentError, "host_id");
    });

  for (const value of ["host-1", "A", "0_a", "x".repeat(MAX_ID_LENGTH_BYTES)])
    it(`host id ${value.slice(0, 10)} is accepted`, () => {
      expect(parseHostId(value)).to.equal(value);
    });

  it("a refused id of 10 KiB gives a short message without control characters", () => {
    expect(() => parseHostId(`\0${"x".repeat(10 * 1024)}`))
      .to.throw(InvalidArgumentError)
      .with.property("message")
      .with.length.below(200);
    expect(() => parseHostId("a\nb")).to.throw(InvalidArgumentError, "a\\nb");
  });

  it("a name may contain dots and slashes, but not start with them or contain control characters", () => {
    expect(parseName("disk_name", "team/db.1@z1")).to.equal("team/db.1@z1");
    for (const value of ["../x", "/x", "a\tb", "a b"])
      expect(() => parseName("disk_name", value)).to.throw(InvalidArgumentError);
  });

  it("an absent optional name is undefined", () => {
    expect(parseOptionalName("az", "")).to.equal(undefined);
    expect(parseOptionalName("az", "z1")).to.equal("z1");
  });
});
