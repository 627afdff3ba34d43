// A file of one's own: chosen, dropped on its view, or pasted, as a file or as its text, where no field takes it.

const FIELDS = "input:not([type=file]), select";

export function takeFiles(section, input, send) {
  const kind = input.dataset.kind;
  const offered = (data) => data.files[0] ?? textFile(kind, data.getData("text"));
  // Text that is dragged into a field is the field's own; a file never is. Firefox drags over text nodes, which match nothing.
  const isOurs = (event) => event.dataTransfer.types.includes("Files") || !event.target.matches?.(FIELDS);
  input.addEventListener("input", (event) => event.stopPropagation());
  input.addEventListener("change", (event) => { event.stopPropagation(); send(kind, input.files[0]); });
  section.addEventListener("dragover", (event) => { if (isOurs(event)) event.preventDefault(); });
  section.addEventListener("drop", (event) => {
    if (!isOurs(event)) return;
    event.preventDefault();
    send(kind, offered(event.dataTransfer));
  });
  document.addEventListener("paste", (event) => {
    const place = event.target.closest(".view") ?? document.querySelector(".view:has(.file)");
    if (place === section && !event.target.matches(FIELDS)) send(kind, offered(event.clipboardData));
  });
}

function textFile(kind, text) {
  const suffix = kind === "config" ? "json" : text.trimStart().startsWith("{") ? "jsonl" : "csv";
  return text ? new File([text], `pasted.${suffix}`) : null;
}
