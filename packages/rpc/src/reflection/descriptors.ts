import { fromBinary, toBinary } from "@bufbuild/protobuf";
import {
  type DescriptorProto,
  type FieldDescriptorProto,
  type FileDescriptorProto,
  FileDescriptorProtoSchema,
} from "@bufbuild/protobuf/wkt";
import type { PackageDefinition } from "@grpc/proto-loader";
import { sourceCodeInfo } from "./descriptor-comments.js";

/**
 * Returns complete file descriptors of files loaded by proto-loader. proto-loader leaves type names relative and
 * imports empty, which protoc accepts but grpcurl and buf do not, and drops comments.
 */
export function completeDescriptors(loaded: PackageDefinition, comments: ReadonlyMap<string, string>): Buffer[] {
  const files = new Map<string, FileDescriptorProto>();
  for (const { fileDescriptorProtos } of Object.values(loaded) as { fileDescriptorProtos?: Uint8Array[] }[])
    for (const bytes of fileDescriptorProtos ?? []) {
      const file = fromBinary(FileDescriptorProtoSchema, bytes);
      for (const message of file.messageType) nameMapEntries(message);
      files.set(file.name, file);
    }
  const fileOfType = new Map<string, string>();
  for (const file of files.values()) for (const name of typesOf(file)) fileOfType.set(name, file.name);
  for (const file of files.values()) {
    complete(file, fileOfType);
    file.sourceCodeInfo = sourceCodeInfo(file, comments);
  }
  return [...files.values()].map((file) => Buffer.from(toBinary(FileDescriptorProtoSchema, file)));
}

/** Names the entry message of a map field after the field, as protoc requires: `labels_by_id` and `LabelsByIdEntry`. */
function nameMapEntries(message: DescriptorProto): void {
  for (const nested of message.nestedType) {
    nameMapEntries(nested);
    if (!nested.options?.mapEntry) continue;
    const field = message.field.find(({ typeName }) => typeName.split(".").at(-1) === nested.name);
    if (!field) continue;
    nested.name = `${field.name.replace(/(?:^|_)([a-z0-9])/g, (_match, first: string) => first.toUpperCase())}Entry`;
    field.typeName = nested.name;
  }
}

function* typesOf(file: FileDescriptorProto): Generator<string> {
  for (const one of file.enumType) yield `${file.package}.${one.name}`;
  for (const message of file.messageType) yield* typesIn(file.package, message);
}

function* typesIn(scope: string, message: DescriptorProto): Generator<string> {
  const name = `${scope}.${message.name}`;
  yield name;
  for (const one of message.enumType) yield `${name}.${one.name}`;
  for (const nested of message.nestedType) yield* typesIn(name, nested);
}

function complete(file: FileDescriptorProto, fileOfType: ReadonlyMap<string, string>): void {
  const imports = new Set<string>();
  const absolute = (scope: string, name: string): string => {
    if (name.startsWith(".")) return name;
    const found = lookUp(scope, name, fileOfType);
    const owner = fileOfType.get(found);
    if (owner !== undefined && owner !== file.name) imports.add(owner);
    return `.${found}`;
  };
  const completeFields = (scope: string, fields: readonly FieldDescriptorProto[]): void => {
    for (const field of fields) {
      // Derives the JSON name as protoc does; proto-loader repeats the field's own name.
      field.jsonName = field.name.replace(/_+(.)?/g, (_match, next: string | undefined) => next?.toUpperCase() ?? "");
      // Leaves an empty type_name or extendee unassigned: the assignment would mark it as present, and reflection tools
      // reject an empty type name.
      if (field.typeName) field.typeName = absolute(scope, field.typeName);
      if (field.extendee) field.extendee = absolute(scope, field.extendee);
    }
  };
  const completeMessage = (scope: string, message: DescriptorProto): void => {
    const name = `${scope}.${message.name}`;
    // proto-loader adds a synthetic oneof for each optional field. Tools would print the oneof without proto3Optional.
    const oneofs = new Set(message.oneofDecl.map((oneof) => oneof.name));
    for (const field of message.field) if (oneofs.has(`_${field.name}`)) field.proto3Optional = true;
    // A descriptor's range ends before its end; proto-loader gives the last reserved number.
    for (const range of message.reservedRange) range.end += 1;
    completeFields(name, message.field);
    completeFields(name, message.extension);
    for (const nested of message.nestedType) completeMessage(name, nested);
  };
  completeFields(file.package, file.extension);
  for (const message of file.messageType) completeMessage(file.package, message);
  for (const service of file.service)
    for (const method of service.method) {
      method.inputType = absolute(file.package, method.inputType);
      method.outputType = absolute(file.package, method.outputType);
    }
  file.dependency = [...imports].sort();
}

/** Resolves a type name by Protobuf's rule: the innermost scope that has the name. */
function lookUp(scope: string, name: string, fileOfType: ReadonlyMap<string, string>): string {
  for (let at = scope; at !== ""; at = at.slice(0, Math.max(0, at.lastIndexOf("."))))
    if (fileOfType.has(`${at}.${name}`)) return `${at}.${name}`;
  return name;
}
