import { create } from "@bufbuild/protobuf";
import {
  type DescriptorProto,
  type EnumDescriptorProto,
  type FileDescriptorProto,
  type SourceCodeInfo,
  SourceCodeInfo_LocationSchema,
  SourceCodeInfoSchema,
} from "@bufbuild/protobuf/wkt";
import protobuf, { type ReflectionObject, type Root } from "protobufjs";

const { Enum, Namespace, Service, Type } = protobuf;

/** Returns the comments of all elements of .proto files by full name. The files must have been parsed with comments. */
export function commentsOf(root: Root): ReadonlyMap<string, string> {
  const comments = new Map<string, string>();
  const note = (name: string, comment: string | null | undefined): void => {
    if (comment) comments.set(name.slice(1), comment);
  };
  const visit = (object: ReflectionObject): void => {
    note(object.fullName, object.comment);
    if (object instanceof Enum)
      for (const [value, comment] of Object.entries(object.comments)) note(`${object.fullName}.${value}`, comment);
    if (object instanceof Type) for (const part of [...object.fieldsArray, ...object.oneofsArray]) visit(part);
    if (object instanceof Service) for (const method of object.methodsArray) visit(method);
    if (object instanceof Namespace) for (const nested of object.nestedArray) visit(nested);
  };
  visit(root);
  return comments;
}

/** Field numbers of descriptor.proto, which form the paths of elements within their parent's descriptor. */
const IN_FILE = { messageType: 4, enumType: 5, service: 6 };
const IN_MESSAGE = { field: 2, nestedType: 3, enumType: 4, oneofDecl: 8 };
const IN_ENUM = { value: 2 };
const IN_SERVICE = { method: 2 };

/** Returns the source info of a file, from which tools print comments and the order of elements. */
export function sourceCodeInfo(file: FileDescriptorProto, comments: ReadonlyMap<string, string>): SourceCodeInfo {
  const location: SourceCodeInfo["location"] = [];
  const say = (path: number[], name: string): void => {
    const comment = comments.get(name);
    // protoc's format: each line keeps the space after the slashes, and the text ends with a newline.
    const leadingComments = comment?.replace(/^.*$/gm, (line) => (line === "" ? "" : ` ${line}`)).concat("\n");
    const span = [location.length, 0, 0];
    location.push(create(SourceCodeInfo_LocationSchema, { path, span, ...(leadingComments && { leadingComments }) }));
  };
  type Named = { readonly name: string };
  const sayAll = (path: number[], scope: string, parts: readonly Named[]): void => {
    for (const [index, { name }] of parts.entries()) say([...path, index], `${scope}.${name}`);
  };
  const sayEnum = (path: number[], name: string, { value }: EnumDescriptorProto): void => {
    say(path, name);
    sayAll([...path, IN_ENUM.value], name, value);
  };
  const sayMessage = (path: number[], name: string, message: DescriptorProto): void => {
    say(path, name);
    sayAll([...path, IN_MESSAGE.field], name, message.field);
    sayAll([...path, IN_MESSAGE.oneofDecl], name, message.oneofDecl);
    for (const [index, nested] of message.nestedType.entries())
      sayMessage([...path, IN_MESSAGE.nestedType, index], `${name}.${nested.name}`, nested);
    for (const [index, nested] of message.enumType.entries())
      sayEnum([...path, IN_MESSAGE.enumType, index], `${name}.${nested.name}`, nested);
  };
  for (const [index, message] of file.messageType.entries())
    sayMessage([IN_FILE.messageType, index], `${file.package}.${message.name}`, message);
  for (const [index, one] of file.enumType.entries())
    sayEnum([IN_FILE.enumType, index], `${file.package}.${one.name}`, one);
  for (const [index, service] of file.service.entries()) {
    const name = `${file.package}.${service.name}`;
    say([IN_FILE.service, index], name);
    sayAll([IN_FILE.service, index, IN_SERVICE.method], name, service.method);
  }
  return create(SourceCodeInfoSchema, { location });
}
