import { expect } from "chai";
import { descriptors, type Message } from "./reference/descriptors.js";

const files = descriptors().filter(({ package: name }) => /^diskmesh\.(?!internal\.)/.test(name));

/** Returns each field of a message of the public packages as `Message.field`, with its type. */
function fieldsOf(messages: readonly Message[]): { readonly name: string; readonly type: string }[] {
  return messages.flatMap(({ name, field = [], nestedType = [] }) => [
    ...field.map((each) => ({ name: `${name}.${each.name}`, type: each.typeName ?? each.type })),
    ...fieldsOf(nestedType),
  ]);
}

const fields = files.flatMap(({ messageType = [] }) => fieldsOf(messageType));

describe("the public protos", () => {
  it("end the name of each time in _time", () => {
    const times = fields.filter(({ type }) => type === ".google.protobuf.Timestamp");
    expect(times).to.have.length.above(40);
    expect(times.map(({ name }) => name).filter((name) => !name.endsWith("_time"))).to.deep.equal([]);
  });

  it("give each span of time as a Duration, but for the burst of limits, which multiplies rates", () => {
    const spans = fields.filter(({ type }) => type === ".google.protobuf.Duration");
    expect(spans).to.have.length.above(5);
    const ofUnit = fields.filter(({ name }) => /[._](ms|millis|secs?|seconds?|minutes?|hours?|days?)$/.test(name));
    const ofTime = ofUnit.filter(({ name }) => !name.endsWith("_per_second"));
    expect(ofTime.map(({ name }) => name)).to.deep.equal(["DiskLimits.burst_seconds"]);
  });

  it("have no message or enum of one name in two packages", () => {
    const names = files.flatMap(({ messageType = [], enumType = [] }) =>
      [...messageType, ...enumType].map(({ name }) => name),
    );
    expect(names).to.have.length.above(200);
    expect(names.filter((name, at) => names.indexOf(name) !== at)).to.deep.equal([]);
  });

  it("have pages for each list", () => {
    const messages = new Map(files.flatMap(({ messageType = [] }) => messageType).map((each) => [each.name, each]));
    const lists = files
      .flatMap(({ service = [] }) => service.flatMap(({ method = [] }) => method))
      .filter(({ name }) => name.startsWith("List"));
    expect(lists).to.have.length.above(20);
    const fieldsIn = (type: string) =>
      messages.get(type.slice(type.lastIndexOf(".") + 1))?.field?.map(({ name }) => name);
    for (const { name, inputType, outputType } of lists) {
      expect(fieldsIn(inputType), name).to.include.members(["page_size", "page_token"]);
      expect(fieldsIn(outputType), name).to.include("next_page_token");
    }
  });
});
