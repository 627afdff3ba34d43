// A file of one's own: chosen, dropped on its view, or pasted, as a file or as its text, where no field takes it.

export function takeFiles(section, input, send) {
  const kind = input.dataset.kind;
  const offered = (data) => data.files[0] ?? textFile(kind, data.getData("text"));
  input.addEventListener("input", (event) => event.stopPropagation());
  input.addEventListener("change", (event) => { event.stopPropagation(); send(kind, input.files[0]); });
  section.addEventListener("dragover", (event) => event.preventDefault());
  section.addEventListener("drop", (event) => { event.preventDefault(); send(kind, offered(event.dataTransfer)); });
  document.addEventListener("paste", (event) => {
    const place = event.target.closest(".view") ?? document.querySelector(".view:has(.file)");
    if (place === section && !event.target.matches("input:not([type=file])")) send(kind, offered(event.clipboardData));
  });
}

function textFile(kind, text) {
  const suffix = kind === "config" ? "json" : text.trimStart().startsWith("{") ? "jsonl" : "csv";
  return text ? new File([text], `pasted.${suffix}`) : null;
}
