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

  it("have no message or enum of one name in two packages", () => {
    const names = files.flatMap(({ messageType = [], enumType = [] }) =>
      [...messageType, ...enumType].map(({ name }) => name),
    );
    expect(names).to.have.length.above(200);
    expect(names.filter((name, at) => names.indexOf(name) !== at)).to.deep.equal([]);
  });
});
