// Browsers start no worker for a page that was opened from the disk, and the search is one: say so, where it is.
if (location.protocol === "file:") {
  document.addEventListener("DOMContentLoaded", () => {
    const field = document.querySelector('[data-md-component="search-query"]');
    field.placeholder = "To search: python -m http.server -d site";
    field.disabled = true;
  });
}
